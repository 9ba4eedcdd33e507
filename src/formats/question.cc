#include "src/formats/question.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <variant>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"
#include "src/base/check.h"
#include "src/formats/json_tree.h"

namespace stepcast::formats {
namespace {

// Keys keep their order, which is the order of a sweep's axes.
using Json = nlohmann::ordered_json;

// A value in the form of --set and --vary: text as it is, otherwise JSON.
std::string TextOf(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// Each of these sets a setting's variable. Returns what is due if the value is something else.

const char* Set(bool& flag, const QuestionSetting&, const Json& value) {
  if (!value.is_boolean()) return "true or false";
  flag = value.get<bool>();
  return nullptr;
}

const char* Set(int& count, const QuestionSetting&, const Json& value) {
  if (!value.is_number_integer()) return "an integer";
  const auto number = value.get<std::int64_t>();
  if (number < 0 || number > std::numeric_limits<int>::max()) {
    return "an integer that is at least 0";
  }
  count = static_cast<int>(number);
  return nullptr;
}

const char* Set(std::string& text, const QuestionSetting& setting, const Json& value) {
  const bool object = setting.type == kPathOrObject;
  if (object && value.is_object()) {
    text = value.dump(1);
  } else if (object && value.is_string()) {
    text = value.get<std::string>();
    // No file has an empty name, and no path begins like an object.
    if (text.empty()) text = " ";
    if (IsObject(text)) text = "./" + text;
  } else if (!object && (value.is_string() || value.is_number())) {
    text = TextOf(value);
  } else {
    return object ? "a path or an object" : "text";
  }
  return nullptr;
}

const char* Set(std::vector<std::string>& words, const QuestionSetting& setting,
                const Json& value) {
  if (setting.type == "KEY=VALUE") {
    if (!value.is_object()) return "an object that contains keys and values";
    for (const auto& [name, own] : value.items()) words.push_back(name + "=" + TextOf(own));
    return nullptr;
  }
  if (setting.type == "KEY=VALUES") {
    // The values of a key are a list, or text in the form of --vary after the equals sign.
    constexpr const char* kDue = "an object that contains keys and lists of values";
    if (!value.is_object()) return kDue;
    for (const auto& [name, values] : value.items()) {
      if (!values.is_string() && !values.is_array()) return kDue;
      std::vector<std::string> texts;
      if (values.is_string()) {
        texts.push_back(values.get<std::string>());
      } else {
        for (const Json& own : values) texts.push_back(TextOf(own));
      }
      words.push_back(fmt::format("{}={}", name, fmt::join(texts, ",")));
    }
    return nullptr;
  }
  if (!value.is_array()) return "a list of strings";
  for (const Json& word : value) {
    if (!word.is_string()) return "a list of strings";
    words.push_back(word.get<std::string>());
  }
  return nullptr;
}

const char* Take(const QuestionSetting& setting, const Json& value) {
  return std::visit(
      [&](auto* variable) -> const char* {
        if constexpr (requires { Set(*variable, setting, value); }) {
          return Set(*variable, setting, value);
        } else {
          STEPCAST_CHECK(false, "the type of a setting of a question must be supported");
          return nullptr;
        }
      },
      setting.variable);
}

class Reader {
 public:
  explicit Reader(const Json& document) : document_(document) {}

  Result<std::string> Read(const std::map<std::string, Question>& questions) {
    const auto ask = document_.find("ask");
    if (ask == document_.end()) {
      Missing("ask");
    } else if (!ask->is_string()) {
      Wrong("ask", "text");
    } else {
      ask_ = ask->get<std::string>();
    }
    const auto asked = questions.find(ask_);
    if (faults_.empty() && asked == questions.end()) {
      std::vector<std::string> names;
      for (const auto& [name, question] : questions) names.push_back(name);
      Fault("question.wrong-type", fmt::format("unknown question: {}", Quoted(ask_)),
            fmt::format("choose from {}", fmt::join(names, ", ")));
    }
    if (!faults_.empty()) return tl::unexpected(std::move(faults_));
    const std::vector<QuestionSetting>& settings = asked->second.settings();
    CheckKeys(settings);
    for (const QuestionSetting& setting : settings) {
      const auto value = document_.find(setting.key());
      if (value == document_.end() || value->is_null()) continue;
      if (const char* due = Take(setting, *value)) Wrong(setting.key(), due);
    }
    if (!faults_.empty()) return tl::unexpected(std::move(faults_));
    return ask_;
  }

 private:
  void Fault(const char* code, std::string message, std::string hint) {
    faults_.push_back({code, {"question", 0, 0}, std::move(message), std::move(hint)});
  }
  void Wrong(const std::string& key, const char* due) {
    Fault("question.wrong-type", fmt::format("{} is required for {}", due, Quoted(key)),
          fmt::format("set \"{}\" to {}", key, due));
  }
  void Missing(const std::string& key) {
    Fault("question.missing-key", fmt::format("the question has no key {}", Quoted(key)),
          fmt::format("add the key \"{}\"", key));
  }

  void CheckKeys(const std::vector<QuestionSetting>& settings) {
    std::vector<std::string> names = {"id", "ask"};
    for (const QuestionSetting& setting : settings) {
      names.push_back(setting.key());
      if (setting.required && !document_.contains(names.back())) Missing(names.back());
    }
    for (const auto& [key, value] : document_.items()) {
      if (std::find(names.begin(), names.end(), key) != names.end()) continue;
      Fault("question.unknown-key", fmt::format("{} has no key {}", Quoted(ask_), Quoted(key)),
            fmt::format("choose from {}", fmt::join(names, ", ")));
    }
  }

  const Json& document_;
  std::string ask_;
  Diagnostics faults_;
};

}  // namespace

ReadQuestion ParseQuestion(std::string_view line,
                           const std::map<std::string, Question>& questions) {
  constexpr std::size_t kMostValues = 10'000;
  auto parsed = ParseJsonTree<Json>(line, kMostValues);
  const Json document = parsed ? *std::move(parsed) : Json();
  if (!document.is_object()) {
    return {.id = "null",
            .ask = tl::unexpected(Diagnostics{
                {"question.not-json",
                 {"question", 0, 0},
                 fmt::format("a question must be a JSON object on one line: {}", Quoted(line)),
                 R"(write for example {"ask": "simulate", "scenario": "my/scenario.yaml"})"}})};
  }
  // The parser has refused invalid UTF-8.
  const std::string id = document.contains("id") ? document.at("id").dump() : "null";
  return {.id = id, .ask = Reader(document).Read(questions)};
}

}  // namespace stepcast::formats
