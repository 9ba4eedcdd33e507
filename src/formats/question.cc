#include "src/formats/question.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"
#include "src/formats/json_tree.h"

namespace stepcast::formats {
namespace {

// Keys keep their order, which is that of a sweep's axes.
using Json = nlohmann::ordered_json;

// The keys of each question, the required ones first.
struct Keys {
  int required = 0;
  std::vector<std::string> names;
};

const std::map<std::string, Keys>& KeysByName() {
  static const std::map<std::string, Keys> keys = {
      {"compare", {1, {"scenario", "set", "other", "other_set"}}},
      {"emit", {2, {"scenario", "folder", "set", "force"}}},
      {"explain", {1, {"scenario", "set"}}},
      {"memory", {1, {"scenario", "set", "max_micro_batch"}}},
      {"plan",
       {1,
        {"scenario", "set", "vary", "target", "framework", "only", "within", "fix", "deadline",
         "tokens", "availability", "headroom", "price", "fewer_nodes", "best", "why", "folder",
         "force"}}},
      {"simulate", {1, {"scenario", "set"}}},
      {"sweep", {2, {"scenario", "vary", "set"}}},
  };
  return keys;
}

// A value in the form of --set and --vary: text as it is, otherwise JSON.
std::string TextOf(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

class Reader {
 public:
  explicit Reader(const Json& document) : document_(document) {}

  Result<Question> Read() {
    question_.ask = "simulate";
    Text("ask", question_.ask, true);
    const auto known = KeysByName().find(question_.ask);
    if (faults_.empty() && known == KeysByName().end()) {
      std::vector<std::string> names;
      for (const auto& [name, keys] : KeysByName()) names.push_back(name);
      Fault("question.wrong-type", fmt::format("unknown question: {}", Quoted(question_.ask)),
            fmt::format("there are: {}", fmt::join(names, ", ")));
    }
    if (!faults_.empty()) return tl::unexpected(std::move(faults_));
    CheckKeys(known->second);
    Scenario("scenario", question_.scenario);
    Settings("set", question_.set);
    if (document_.contains("other")) Scenario("other", question_.other.emplace());
    Settings("other_set", question_.other_set);
    Flag("max_micro_batch", question_.max_micro_batch);
    Axes();
    Text("target", question_.target);
    Text("framework", question_.framework);
    Text("only", question_.only);
    Text("within", question_.within);
    Text("deadline", question_.deadline);
    Text("tokens", question_.tokens);
    Text("availability", question_.availability);
    Text("headroom", question_.headroom);
    Words("fix", question_.fix);
    if (const Json* price = Find("price"); price != nullptr && !price->is_null()) {
      if (price->is_number()) {
        question_.price = price->get<double>();
      } else {
        Wrong("price", "a number");
      }
    }
    Flag("fewer_nodes", question_.fewer_nodes);
    Count("best", question_.best);
    Count("why", question_.why);
    Text("folder", question_.folder);
    Flag("force", question_.force);
    if (!faults_.empty()) return tl::unexpected(std::move(faults_));
    return std::move(question_);
  }

 private:
  void Fault(const char* code, std::string message, std::string hint) {
    faults_.push_back({code, {"question", 0, 0}, std::move(message), std::move(hint)});
  }
  void Wrong(const char* key, const char* due) {
    Fault("question.wrong-type", fmt::format("{} is due for {}", due, Quoted(key)),
          fmt::format("write \"{}\": with {} behind it", key, due));
  }
  void Missing(const std::string& key) {
    Fault("question.missing-key", fmt::format("the question lacks {}", Quoted(key)),
          fmt::format("add \"{}\" to it", key));
  }

  const Json* Find(const char* key) const {
    const auto found = document_.find(key);
    return found == document_.end() ? nullptr : &*found;
  }

  void CheckKeys(const Keys& keys) {
    for (int i = 0; i < keys.required; ++i) {
      const std::string& name = keys.names[static_cast<std::size_t>(i)];
      if (!document_.contains(name)) Missing(name);
    }
    for (const auto& [key, value] : document_.items()) {
      if (key == "id" || key == "ask") continue;
      if (std::find(keys.names.begin(), keys.names.end(), key) != keys.names.end()) continue;
      Fault("question.unknown-key",
            fmt::format("{} has no key {}", Quoted(question_.ask), Quoted(key)),
            fmt::format("there are: id, ask, {}", fmt::join(keys.names, ", ")));
    }
  }

  void Text(const char* key, std::string& text, bool required = false) {
    const Json* value = Find(key);
    if (value == nullptr) {
      if (required) Missing(key);
    } else if (value->is_string()) {
      text = value->get<std::string>();
    } else {
      Wrong(key, "text");
    }
  }

  void Flag(const char* key, bool& flag) {
    const Json* value = Find(key);
    if (value == nullptr) return;
    if (!value->is_boolean()) return Wrong(key, "true or false");
    flag = value->get<bool>();
  }

  void Count(const char* key, int& count) {
    const Json* value = Find(key);
    if (value == nullptr) return;
    if (!value->is_number_integer()) return Wrong(key, "a whole number");
    const auto number = value->get<std::int64_t>();
    if (number < 0 || number > std::numeric_limits<int>::max()) {
      return Wrong(key, "a whole number that is not negative");
    }
    count = static_cast<int>(number);
  }

  void Words(const char* key, std::vector<std::string>& words) {
    const Json* value = Find(key);
    if (value == nullptr) return;
    if (!value->is_array()) return Wrong(key, "a list of texts");
    for (const Json& word : *value) {
      if (!word.is_string()) return Wrong(key, "a list of texts");
      words.push_back(word.get<std::string>());
    }
  }

  void Scenario(const char* key, QuestionScenario& scenario) {
    const Json* value = Find(key);
    if (value == nullptr) return;
    if (value->is_string()) {
      scenario.path = value->get<std::string>();
      // An empty path would stand for a text, so use a name that no file has.
      if (scenario.path.empty()) scenario.path = " ";
    } else if (value->is_object()) {
      scenario.text = value->dump(1);
    } else {
      Wrong(key, "a path or an object");
    }
  }

  void Settings(const char* key, std::vector<std::string>& settings) {
    const Json* value = Find(key);
    if (value == nullptr) return;
    if (!value->is_object()) return Wrong(key, "an object of keys and values");
    for (const auto& [name, own] : value->items()) settings.push_back(name + "=" + TextOf(own));
  }

  // The values of a key are a list, or text in the form of --vary after the equals sign.
  void Axes() {
    const Json* value = Find("vary");
    if (value == nullptr) return;
    constexpr const char* kDue = "an object of keys and lists of values";
    if (!value->is_object()) return Wrong("vary", kDue);
    for (const auto& [name, values] : value->items()) {
      if (!values.is_string() && !values.is_array()) return Wrong("vary", kDue);
      std::vector<std::string> texts;
      if (values.is_string()) {
        texts.push_back(values.get<std::string>());
      } else {
        for (const Json& own : values) texts.push_back(TextOf(own));
      }
      question_.vary.push_back(fmt::format("{}={}", name, fmt::join(texts, ",")));
    }
  }

  const Json& document_;
  Question question_;
  Diagnostics faults_;
};

}  // namespace

ReadQuestion ParseQuestion(std::string_view line) {
  constexpr std::size_t kMostValues = 10'000;
  auto parsed = ParseJsonTree<Json>(line, kMostValues);
  const Json document = parsed ? *std::move(parsed) : Json();
  if (!document.is_object()) {
    return {.id = "null",
            .question = tl::unexpected(Diagnostics{
                {"question.not-json",
                 {"question", 0, 0},
                 fmt::format("a question is a JSON object on one line: {}", Quoted(line)),
                 R"(write for example {"ask": "simulate", "scenario": "my/scenario.yaml"})"}})};
  }
  // The parser has refused invalid UTF-8.
  const std::string id = document.contains("id") ? document.at("id").dump() : "null";
  return {.id = id, .question = Reader(document).Read()};
}

}  // namespace stepcast::formats
