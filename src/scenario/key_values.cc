#include "src/scenario/key_values.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "src/scenario/loader.h"
#include "src/scenario/overrides.h"

namespace stepcast::scenario {
namespace {

// Larger ranges are errors.
constexpr std::int64_t kMostNumbers = 16;

// The reader's mistakes for this value of the key.
Diagnostics Answers(std::string_view key, std::string_view value, const std::string& path,
                    std::vector<std::string> overrides, InputCache& cache) {
  const std::string option = fmt::format("{}={}", key, value);
  overrides.push_back(option);
  const auto scenario = Load(path, overrides, cache);
  Diagnostics answers;
  if (scenario) return answers;
  std::copy_if(scenario.error().begin(), scenario.error().end(), std::back_inserter(answers),
               [&](const Diagnostic& fault) { return fault.location.file == "--set " + option; });
  return answers;
}

const Diagnostic* Find(const Diagnostics& answers, std::string_view code) {
  const auto found = std::find_if(answers.begin(), answers.end(),
                                  [&](const Diagnostic& fault) { return fault.code == code; });
  return found == answers.end() ? nullptr : &*found;
}

// The value between `before` and the end of a reader's message.
std::optional<std::string_view> After(const Diagnostic* fault, std::string_view before) {
  if (fault == nullptr) return std::nullopt;
  const std::string_view message = fault->message;
  const std::size_t begin = message.find(before);
  const std::size_t end = message.rfind(": ");
  if (begin == std::string_view::npos || end == std::string_view::npos) return std::nullopt;
  const std::size_t from = begin + before.size();
  if (from > end) return std::nullopt;
  return message.substr(from, end - from);
}

std::optional<std::int64_t> Number(std::optional<std::string_view> text) {
  std::int64_t number = 0;
  if (!text ||
      std::from_chars(text->data(), text->data() + text->size(), number).ec != std::errc()) {
    return std::nullopt;
  }
  return number;
}

std::vector<std::string> SplitAtBlanks(std::string_view words) {
  constexpr std::string_view kSeparator = ", ";
  std::vector<std::string> parts;
  for (std::size_t comma = 0; comma != std::string_view::npos;) {
    comma = words.find(kSeparator);
    parts.emplace_back(words.substr(0, comma));
    if (comma != std::string_view::npos) words.remove_prefix(comma + kSeparator.size());
  }
  return parts;
}

}  // namespace

std::optional<std::string> WrittenValue(std::string_view key, const std::string& path,
                                        const std::vector<std::string>& overrides,
                                        InputCache& cache) {
  auto opened = OpenScenario(path, cache);
  if (!opened || opened->root == nullptr) return std::nullopt;
  Override(overrides, *opened, cache);
  const YamlNode* node = Below(*opened->root, key);
  if (node == nullptr) return std::nullopt;
  return node->kind == NodeKind::kScalar ? node->scalar : CanonicalText(*node);
}

Result<std::vector<std::string>> ValuesOf(std::string_view key, const std::string& path,
                                          const std::vector<std::string>& overrides,
                                          InputCache& cache) {
  // Only the readers (document.h) know which values they accept; they report values that they do
  // not.
  constexpr const char* kNoValue = "all";
  const Diagnostics answers = Answers(key, kNoValue, path, overrides, cache);
  if (const auto words = After(Find(answers, "input.unknown-word"), "must be one of ")) {
    return SplitAtBlanks(*words);
  }
  if (Find(answers, "input.not-a-boolean") != nullptr) {
    return std::vector<std::string>{"false", "true"};
  }
  if (Find(answers, "input.not-an-integer") != nullptr) {
    const auto bound = [&](const char* value, const char* words) {
      return Number(
          After(Find(Answers(key, value, path, overrides, cache), "input.out-of-range"), words));
    };
    const auto least = bound("-1", "must be at least ");
    const auto most = bound("1000000000000000000", "must be at most ");
    if (least && most && *most - *least < kMostNumbers) {
      std::vector<std::string> numbers;
      for (std::int64_t i = *least; i <= *most; ++i) numbers.push_back(fmt::format("{}", i));
      return numbers;
    }
  }
  Diagnostics faults;
  std::copy_if(answers.begin(), answers.end(), std::back_inserter(faults),
               [](const Diagnostic& fault) {
                 return fault.code == "input.unknown-key" || fault.code.starts_with("override.");
               });
  if (faults.empty()) {
    if (auto base = Load(path, overrides, cache); !base) faults = std::move(base.error());
  }
  if (faults.empty()) {
    faults.push_back(
        {"sweep.no-finite-set",
         {fmt::format("--set {}={}", key, kNoValue), 0, 0},
         fmt::format("'all' cannot be used for '{}', because this key accepts too many values",
                     key),
         "write the values, separated by commas, or a range: 1..64 x2"});
  }
  return tl::unexpected(std::move(faults));
}

}  // namespace stepcast::scenario
