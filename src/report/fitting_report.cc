#include "src/report/fitting_report.h"

#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/quantity.h"
#include "src/report/table.h"

namespace stepcast::report {
namespace {

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
      "Settings that save memory do not make it fit, nor do two or three of them together ({} "
      "forecasts{}).\n",
      fitting.forecasts, fitting.stopped ? "; the time for more is over" : "");
  if (fitting.nearest) {
    const FittingSettings& nearest = *fitting.nearest;
    text += nearest.left < Bytes()
                ? fmt::format("The nearest, {}, lacks {}.\n", SettingsOf(nearest),
                              FormatBytes(Bytes(-nearest.left.count())))
                : fmt::format("The nearest, {}, fits with a probability of {} %.\n",
                              SettingsOf(nearest), Decimal(kHundred * nearest.fit_probability, 0));
    text += CommandOrNothing(fitting, nearest);
  }
  return Wrapped(text + "More GPUs, or a GPU with more memory, divide the rest.\n");
}

}  // namespace

std::string FittingText(const Fitting& fitting) {
  if (fitting.forecasts == 0) {
    return fitting.stopped ? Wrapped(
                                 "Settings that save memory were not tried: a forecast of this "
                                 "step takes too long.\n")
                           : "";
  }
  if (fitting.settings.empty()) return NothingFits(fitting);
  Table table({{"", Align::kRight},
               {"what makes it fit", Align::kLeft},
               {"step ms"},
               {"longer by %"},
               {"left GiB"},
               {"fits %"}});
  std::string commands;
  for (std::size_t i = 0; i < fitting.settings.size(); ++i) {
    const FittingSettings& one = fitting.settings[i];
    const double change = fitting.step_time == Time() ? 0 : one.step_time / fitting.step_time - 1;
    table.AddRow({fmt::format("{}", i + 1), SettingsOf(one), Milliseconds(one.step_time),
                  Signed(kHundred * change, 1),
                  Decimal(static_cast<double>(one.left.count()) / (1 << 30), 2),
                  Decimal(kHundred * one.fit_probability, 0)});
    const std::string command = CommandOrNothing(fitting, one);
    if (!command.empty()) commands += fmt::format("command {}\n{}", i + 1, command);
  }
  return table.ToString() +
         (fitting.stopped ? "not all settings were tried: the time for it is over\n" : "") +
         (commands.empty() ? "" : "\n" + commands);
}

Json FittingJson(const Fitting& fitting) {
  Json rows = Json::array();
  for (const FittingSettings& one : fitting.settings) {
    Json set = Json::array();
    for (const std::string& option : one.set) set.push_back(option);
    const CommandWords command = With(fitting, one);
    rows.push_back({{"set", std::move(set)},
                    {"step_time_s", JsonSeconds(one.step_time)},
                    {"free_bytes", one.left.count()},
                    {"fit_probability", one.fit_probability},
                    {"command", command.words.empty() ? Json() : Json(CommandLine(command))}});
  }
  return rows;
}

}  // namespace stepcast::report
