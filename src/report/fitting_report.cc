#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/quantity.h"
#include "src/report/answer.h"
#include "src/report/answers.h"

namespace stepcast::report {
namespace {

using enum Align;

// The command with further settings; empty if none is known.
CommandWords With(const Fitting& fitting, const FittingSettings& one) {
  CommandWords command = fitting.command;
  if (!command.words.empty()) command.set.insert(command.set.end(), one.set.begin(), one.set.end());
  return command;
}

std::string CommandOrNothing(const Fitting& fitting, const FittingSettings& one) {
  const CommandWords command = With(fitting, one);
  return command.words.empty() ? "" : CommandText(command);
}

// The changed settings. Keys that return to their defaults, and the batch, which stays, are only in
// the command.
std::string SettingsOf(const FittingSettings& one) {
  std::vector<std::string> shown;
  for (const std::string& setting : one.set) {
    if (setting.ends_with("=null") || setting.starts_with("training.global_batch_size=")) continue;
    shown.push_back(setting);
  }
  return fmt::format("{}", fmt::join(shown, ", "));
}

std::string NothingFits(const Fitting& fitting) {
  std::string text = fmt::format(
      "The step does not fit, even with one, two or three memory-saving settings together ({} "
      "forecasts{}).\n",
      fitting.forecasts, fitting.stopped ? "; the time limit was reached" : "");
  if (fitting.nearest) {
    const FittingSettings& nearest = *fitting.nearest;
    text +=
        nearest.left < Bytes()
            ? fmt::format("With the closest settings, {}, the step still needs {} more memory.\n",
                          SettingsOf(nearest), FormatBytes(Bytes(-nearest.left.count())))
            : fmt::format(
                  "With the closest settings, {}, the probability that the step fits is {} %.\n",
                  SettingsOf(nearest), Decimal(kHundred * nearest.fit_probability, 0));
    text += CommandOrNothing(fitting, nearest);
  }
  return Wrapped(text + "Use more GPUs, or GPUs with more memory.\n");
}

AnswerTable Settings(const Fitting& fitting) {
  AnswerTable table{{{"", ""},
                     {"settings that fit", "set", kLeft},
                     {"step ms", "step_time_s"},
                     {"longer by %", ""},
                     {"left GiB", "free_bytes"},
                     {"fits %", "fit_probability"},
                     {"", "command"}}};
  for (const FittingSettings& one : fitting.settings) {
    const double change = fitting.step_time == Time() ? 0 : one.step_time / fitting.step_time - 1;
    const double left = static_cast<double>(one.left.count()) / (1 << 30);
    const CommandWords command = With(fitting, one);
    table.Add({Plain(table.rows.size() + 1), Cell(SettingsOf(one), one.set), one.step_time,
               Signed(kHundred * change, 1), Cell(Decimal(left, 2), one.left.count()),
               InPerCent(one.fit_probability, 0),
               command.words.empty() ? Json() : Json(CommandLine(command))});
  }
  return table;
}

}  // namespace

std::string FittingText(const Fitting& fitting) {
  if (fitting.forecasts == 0) {
    return fitting.stopped ? Wrapped(
                                 "Memory-saving settings were not tried, because a forecast of the "
                                 "step takes too long.\n")
                           : "";
  }
  if (fitting.settings.empty()) return NothingFits(fitting);
  std::string commands;
  for (std::size_t i = 0; i < fitting.settings.size(); ++i) {
    const std::string command = CommandOrNothing(fitting, fitting.settings[i]);
    if (!command.empty()) commands += fmt::format("command {}\n{}", i + 1, command);
  }
  return Settings(fitting).Text() +
         (fitting.stopped ? "the time limit was reached before all settings were tried\n" : "") +
         (commands.empty() ? "" : "\n" + commands);
}

Json FittingJson(const Fitting& fitting) { return Settings(fitting).ToJson(); }

}  // namespace stepcast::report
