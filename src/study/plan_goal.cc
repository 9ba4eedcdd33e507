#include "src/study/plan_goal.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string_view>
#include <system_error>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/quantity.h"

namespace stepcast::study {

using planner::Goal;
using planner::Target;

namespace {

// The words of a list with commas.
std::vector<std::string> WordsOf(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

// "4 GiB", "5%", "5 %".
void ReadHeadroom(const std::string& text, Goal& goal, Diagnostics& faults) {
  if (text.empty()) return;
  constexpr const char* kHint = "write a size or a percentage, for example '4 GiB' or '5%'";
  if (text.ends_with('%')) {
    std::string_view number(text.data(), text.size() - 1);
    while (number.ends_with(' ')) number.remove_suffix(1);
    const auto percent = PositiveNumber(number);
    constexpr double kWhole = 100;
    if (percent && *percent < kWhole) {
      goal.headroom_part = *percent / kWhole;
    } else {
      faults.push_back(WrongOption(
          "--headroom", text,
          fmt::format("the value must be above 0 and below 100 %: {}", Quoted(text)), kHint));
    }
    return;
  }
  const auto size = ParseBytes(text);
  if (text == "0" || (size && *size >= Bytes(0))) {
    goal.headroom = size ? *size : Bytes(0);
  } else {
    faults.push_back(
        WrongOption("--headroom", text,
                    size ? fmt::format("the value must not be negative: {}", Quoted(text))
                         : size.error().message,
                    kHint));
  }
}

}  // namespace

Goal ReadGoal(const PlanQuestion& question, Diagnostics& faults) {
  Goal goal;
  const auto* const target =
      std::find_if(std::begin(planner::kTargets), std::end(planner::kTargets),
                   [&](Target known) { return question.target == planner::Name(known); });
  if (target == std::end(planner::kTargets)) {
    std::vector<const char*> names;
    for (const Target known : planner::kTargets) names.push_back(planner::Name(known));
    faults.push_back(
        WrongOption("--target", question.target,
                    fmt::format("the value of --target is unknown: {}", Quoted(question.target)),
                    fmt::format("choose from {}", fmt::join(names, ", "))));
  } else {
    goal.target = *target;
  }
  goal.training = ReadTraining(question.training, faults);
  ReadHeadroom(question.headroom, goal, faults);
  if (goal.target == Target::kCost && question.training.price.empty()) {
    faults.push_back(WrongOption("--target", question.target,
                                 "'--target cost' needs the price of a GPU hour",
                                 "add --price 2.5"));
  }
  const bool whole_run = goal.target == Target::kDays || goal.target == Target::kEnergy;
  if (whole_run && question.training.tokens.empty()) {
    faults.push_back(WrongOption(
        "--target", question.target,
        fmt::format("'--target {}' needs the number of training tokens", question.target),
        "add --tokens 300B"));
  }
  if (goal.target == Target::kGpus && question.training.deadline.empty()) {
    faults.push_back(
        WrongOption("--target", question.target, "--target gpus needs a deadline",
                    fmt::format("add --deadline '30 d'{}",
                                question.training.tokens.empty() ? " --tokens 300B" : "")));
  }
  return goal;
}

std::vector<plan::Framework> ReadFrameworks(const std::string& text, Diagnostics& faults) {
  using plan::Framework;
  if (text.empty()) return {};
  std::vector<Framework> of_all;
  std::vector<std::string_view> names, others;
  for (const Framework known : plan::kFrameworks) {
    const bool searched = plan::TraitsOf(known).searched_by_default;
    if (searched) of_all.push_back(known);
    names.emplace_back(plan::Name(known));
    if (!searched) others.emplace_back(plan::Name(known));
  }
  if (text == "all") return of_all;
  std::vector<Framework> frameworks;
  for (const std::string& word : WordsOf(text)) {
    const auto* found = std::find_if(std::begin(plan::kFrameworks), std::end(plan::kFrameworks),
                                     [&](Framework known) { return word == plan::Name(known); });
    if (found != std::end(plan::kFrameworks)) {
      frameworks.push_back(*found);
    } else {
      faults.push_back(WrongOption(
          "--framework", text, fmt::format("this framework does not exist: {}", Quoted(word)),
          fmt::format("choose one or several of {}, or write 'all' for all frameworks except {}",
                      fmt::join(names, ", "), fmt::join(others, ", "))));
    }
  }
  return frameworks;
}

std::vector<std::string_view> ReadKinds(const std::string& text, Diagnostics& faults) {
  const std::vector<std::string_view> all(std::begin(planner::kParallelKinds),
                                          std::end(planner::kParallelKinds));
  if (text.empty()) return all;
  std::vector<std::string_view> kinds;
  for (const std::string& word : WordsOf(text)) {
    const auto found = std::find(all.begin(), all.end(), word);
    if (found != all.end()) {
      kinds.push_back(*found);
    } else if (word != "data") {
      faults.push_back(WrongOption(
          "--only", text,
          fmt::format("stepcast knows no axis of parallelism with this name: {}", Quoted(word)),
          "choose one or several of data, tensor, pipeline, context, expert"));
    }
  }
  return kinds;
}

std::optional<double> ReadWithin(const std::string& text, Diagnostics& faults) {
  if (text.empty()) return std::nullopt;
  const auto seconds = LongTime(text);
  if (!seconds) {
    faults.push_back(WrongOption("--within", text,
                                 fmt::format("the value is not a time: {}", Quoted(text)),
                                 "write a time such as 10s or '2 min'"));
  }
  return seconds;
}

Why ReadWhy(const std::string& text, Diagnostics& faults) {
  Why why;
  constexpr int kMostNamed = 1000;
  const char* const last = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), last, why.runners_up);
  const bool number = error == std::errc() && stop == last;
  if (text.empty() || (number && why.runners_up >= 0 && why.runners_up <= kMostNamed)) return why;
  why = {.layout_text = text, .layout = {}};
  for (const std::string& word : WordsOf(text)) {
    const std::size_t equals = std::min(word.find('='), word.size());
    std::string key = word.substr(0, equals);
    if (key.find('.') == std::string::npos) key = "parallelism." + key;
    const planner::LayoutKey* const row = planner::FindLayoutKey(key);
    const std::string value = equals < word.size() ? word.substr(equals + 1) : "";
    planner::Layout probe;
    if (row != nullptr && !value.empty() && row->Take(probe, value)) {
      why.layout.emplace_back(row, value);
      continue;
    }
    faults.push_back(WrongOption(
        "--why", text,
        fmt::format("the value of --why must be a number of plans or a layout: {}", Quoted(word)),
        "write a number of plans (--why 5), or a layout (--why tensor=8,pipeline=16)"));
  }
  return why;
}

}  // namespace stepcast::study
