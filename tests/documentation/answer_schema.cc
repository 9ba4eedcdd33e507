#include "tests/documentation/answer_schema.h"

#include "fmt/format.h"

namespace stepcast {
namespace {

using nlohmann::json;

const char* TypeOf(const json& value) {
  if (value.is_null()) return "null";
  if (value.is_boolean()) return "boolean";
  if (value.is_number()) return "number";
  if (value.is_string()) return "string";
  return value.is_array() ? "array" : "object";
}

// The schema of all values at one place.
json SchemaOf(const std::vector<const json*>& values, const std::string& place,
              const std::set<std::string>& of_the_input) {
  std::set<std::string> types;
  std::vector<const json*> items, mappings;
  std::set<std::string> keys;
  for (const json* value : values) {
    types.insert(TypeOf(*value));
    if (value->is_array()) {
      for (const json& item : *value) items.push_back(&item);
    }
    if (!value->is_object()) continue;
    mappings.push_back(value);
    for (const auto& [key, member] : value->items()) keys.insert(key);
  }
  json schema = {{"type", types.size() == 1 ? json(*types.begin()) : json(types)}};
  if (!items.empty()) schema["items"] = SchemaOf(items, place + "[]", of_the_input);
  if (mappings.empty() || of_the_input.contains(place)) return schema;
  json required = json::array();
  for (const std::string& key : keys) {
    std::vector<const json*> members;
    for (const json* mapping : mappings) {
      if (mapping->contains(key)) members.push_back(&(*mapping)[key]);
    }
    schema["properties"][key] =
        SchemaOf(members, place.empty() ? key : place + "." + key, of_the_input);
    if (members.size() == mappings.size()) required.push_back(key);
  }
  if (!required.empty()) schema["required"] = required;
  return schema;
}

}  // namespace

json AnswerSchema(const std::string& name, const std::vector<json>& answers,
                  const std::set<std::string>& of_the_input) {
  std::vector<const json*> values;
  for (const json& answer : answers) values.push_back(&answer);
  json schema = SchemaOf(values, "", of_the_input);
  const json version = answers.front().value("stepcast", json());
  schema["$schema"] = "http://json-schema.org/draft-07/schema#";
  schema["$id"] = fmt::format("urn:stepcast:answer:{}:1", name);
  schema["title"] = fmt::format("stepcast {} --json, version 1", name);
  if (!version.is_null()) schema["properties"]["stepcast"] = {{"enum", json::array({version})}};
  return schema;
}

}  // namespace stepcast
