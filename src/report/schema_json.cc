#include "src/report/schema_json.h"

#include <utility>

#include "fmt/format.h"
#include "src/report/json.h"
#include "src/report/json_values.h"

namespace stepcast::report {
namespace {

using scenario::Schema;
using scenario::SchemaValue;

Json ToJson(const Schema& schema);

// Digits, a fraction or none, and a unit (base/quantity.h).
Json QuantitySchema(const char* units) {
  return {{"type", "string"}, {"pattern", fmt::format("^[0-9]+(\\.[0-9]+)? ?({})$", units)}};
}

Json Mapping(const Schema& schema) {
  Json mapping = {{"type", "object"}};
  if (schema.keys().empty()) return mapping;  // any keys
  Json properties = Json::object(), required = Json::array();
  for (const Schema::Key& key : schema.keys()) {
    properties[key.name] = ToJson(*key.value);
    if (schema.Requires(key)) required.push_back(key.name);
  }
  mapping["properties"] = std::move(properties);
  if (required.size() > 0) mapping["required"] = std::move(required);
  mapping["additionalProperties"] = false;
  return mapping;
}

Json ToJson(const Schema& schema, const SchemaValue& value) {
  switch (value.kind) {
    case SchemaValue::Kind::kText:
      return {{"type", Json::array({"string", "number"})}};
    case SchemaValue::Kind::kWord:
      return {{"enum", value.words}};
    case SchemaValue::Kind::kInteger:
      return {
          {"type", "integer"}, {"minimum", value.integers.least}, {"maximum", value.integers.most}};
    case SchemaValue::Kind::kDecimal:  // in quotes, too
      return {{"type", Json::array({"number", "string"})},
              {"minimum", value.decimals.least},
              {"maximum", value.decimals.most},
              {"pattern", "^-?[0-9]+(\\.[0-9]+)?([eE][-+]?[0-9]+)?$"}};
    case SchemaValue::Kind::kBoolean:
      return {{"type", "boolean"}};
    case SchemaValue::Kind::kVersion:  // without quotes a number
      return {{"type", Json::array({"string", "number"})},
              {"pattern", "^[0-9]{1,4}\\.[0-9]{1,4}$"}};
    case SchemaValue::Kind::kBytes:
      return QuantitySchema("B|KB|MB|GB|TB|KiB|MiB|GiB|TiB");
    case SchemaValue::Kind::kBandwidth:
      return QuantitySchema("B/s|KB/s|MB/s|GB/s|TB/s|MiB/s|GiB/s|Kbps|Mbps|Gbps|Tbps");
    case SchemaValue::Kind::kTime:
      return QuantitySchema("ps|ns|us|ms|s|min|h");
    case SchemaValue::Kind::kFlopRate:
      return QuantitySchema("GFLOPS|TFLOPS|PFLOPS");
    case SchemaValue::Kind::kSequence:
      return {{"type", "array"}, {"items", ToJson(*schema.items())}};
    case SchemaValue::Kind::kMapping:
      return Mapping(schema);
  }
  return {};
}

Json ToJson(const Schema& schema) {
  Json forms = Json::array();
  for (const SchemaValue& value : schema.values()) forms.push_back(ToJson(schema, value));
  for (const auto& other : schema.others()) forms.push_back(ToJson(*other));
  Json json = Json::object();
  if (!schema.description().empty()) {
    json["description"] =
        fmt::format("{}. Default: {}", schema.description(), schema.default_value());
  }
  if (forms.size() == 1) {
    json.update(forms[0]);
  } else if (forms.size() > 1) {
    json["anyOf"] = std::move(forms);
  }
  return json;
}

}  // namespace

std::string SchemaJson(const Schema& schema, const std::string& name, int version) {
  Json document = {{"$schema", "http://json-schema.org/draft-07/schema#"},
                   {"$id", fmt::format("urn:stepcast:{}:{}", name, version)},
                   {"title", fmt::format("stepcast {}, version {}", name, version)}};
  document.update(ToJson(schema));
  return Text(document);
}

}  // namespace stepcast::report
