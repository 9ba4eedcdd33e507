#include "src/cli/command_line.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string_view>

#include "CLI/CLI.hpp"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/diagnostic.h"
#include "src/base/files_read.h"
#include "src/cli/forecast_options.h"
#include "src/cli/hardware_options.h"
#include "src/cli/import_options.h"
#include "src/cli/option_parts.h"
#include "src/cli/output_paths.h"
#include "src/cli/progress_line.h"
#include "src/cli/search_options.h"
#include "src/cli/terminal.h"

namespace stepcast::cli {
namespace {

constexpr const char* kVersion = "stepcast 0.1.0";

constexpr const char* kAbout =
    "Forecasts one step of distributed training: how long it takes, where the time goes, and\n"
    "whether it fits in memory. A scenario file names a model, a cluster and a plan.";

constexpr const char* kMainFooter =
    "Example:\n"
    "  stepcast simulate scenarios/llama3-8b-fsdp/scenario.yaml\n"
    "  stepcast simulate scenarios/llama3-8b-fsdp/scenario.yaml --set cluster.nodes=4 \\\n"
    "      --set parallelism.data=32\n"
    "\n"
    "Paths are looked up as they are, beside the file that names them, and in the data that\n"
    "stepcast was built with (models/, topologies/, calibration/, scenarios/), or in\n"
    "$STEPCAST_DATA. Each command has its own page: stepcast COMMAND --help\n"
    "\n";

// What the command line asks for, filled by the parser.
struct Request {
  SimulateOptions simulate;
  bool timeline = false, no_timeline = false;  // of simulate; neither: if stdout is a terminal
  MemoryOptions memory;
  ModelImportOptions model_import;
  CompareOptions compare;
  ExplainOptions explain;
  SweepOptions sweep;
  PlanOptions plan;
  CalibrateOptions calibrate;
  CalibrateImportOptions calibrate_import;
  CalibrateRunsOptions calibrate_runs;
  CollectiveOptions collective;
  ExecuteOptions execute;
  ValidateOptions validate;
  ValidateCollectivesOptions validate_collectives;
  ValidatePublishedOptions validate_published;
  TopologyShowOptions topology_show;
  TopologyImportOptions topology_import;
};

// What the user writes: commands of two words that have a page of their own, such as `validate
// collectives`, are one word with a hyphen inside, and in no group.
std::string NameOf(const CLI::App& command) {
  std::string name = command.get_name();
  if (command.get_group().empty()) std::replace(name.begin(), name.end(), '-', ' ');
  return name;
}

// CLI11's page without what it says twice: types of positionals, what excludes what, and whole
// descriptions in the list of commands.
class HelpPage : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override {
    name.erase(name.find_last_not_of(' ') + 1);
    if (name.ends_with(app->get_name())) {
      name.replace(name.size() - app->get_name().size(), std::string::npos, NameOf(*app));
    }
    std::string usage = "\nUsage: " + name;
    if (!app->get_subcommands(nullptr).empty()) {
      return usage + (app->get_require_subcommand_min() > 0 ? " COMMAND ...\n"
                                                            : " [COMMAND ...] [OPTIONS]\n");
    }
    for (const CLI::Option* option : app->get_options()) {
      if (option->get_positional()) usage += " " + option->get_name(true);
    }
    return usage + " [OPTIONS]\n";
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_positional() || option->get_type_name().empty()) return "";
    return " " + option->get_type_name();
  }
  std::string make_subcommand(const CLI::App* command) const override {
    const std::string& text = command->get_description();
    std::string line = text.substr(0, text.find_first_of(".:"));
    std::replace(line.begin(), line.end(), '\n', ' ');
    return fmt::format("  {:<{}}{}\n", command->get_name(), get_column_width() - 2, line);
  }
};

void Describe(CLI::App& app, Request& request) {
  app.description(kAbout);
  app.footer(std::string(kMainFooter) + kExitStatus);
  app.set_version_flag("--version", kVersion, "Print the version");
  app.require_subcommand(1);
  const auto page = std::make_shared<HelpPage>();
  page->column_width(24);
  page->label("Positionals", "Arguments");
  app.formatter(page);

  AddSimulate(app, request.simulate, request.timeline, request.no_timeline);
  AddMemory(app, request.memory);
  AddCompare(app, request.compare);
  AddExplain(app, request.explain);
  AddSweep(app, request.sweep);
  AddPlan(app, request.plan);
  AddCalibrate(app, request.calibrate, request.calibrate_import, request.calibrate_runs);
  AddCollective(app, request.collective);
  AddExecute(app, request.execute);
  AddValidate(app, request.validate);
  AddValidateCollectives(app, request.validate_collectives);
  AddValidatePublished(app, request.validate_published);
  AddModel(app, request.model_import);
  AddTopology(app, request.topology_show, request.topology_import);
}

// One page for each command; CLI11's own would list the options of the application with it.
std::string Help(const CLI::App& app) {
  const CLI::App* deepest = &app;
  std::string name = "stepcast";
  while (!deepest->get_subcommands().empty()) {
    deepest = deepest->get_subcommands().front();
    name += " " + deepest->get_name();
  }
  // The page adds the command's own name.
  return deepest->help(deepest == &app ? name : name.substr(0, name.rfind(' ')));
}

Diagnostic WrongUse(const char* code, std::string message, std::string hint) {
  return {code, {"command line", 0, 0}, std::move(message), std::move(hint)};
}

std::string DidYouMean(std::string_view word, const std::vector<std::string>& known) {
  const std::vector<std::string_view> views(known.begin(), known.end());
  if (const std::string_view near = NearestWord(word, views); !near.empty()) {
    return fmt::format("did you mean '{}'?", near);
  }
  return fmt::format("there are: {}", fmt::join(known, ", "));
}

std::vector<std::string> Commands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    if (!command->get_group().empty()) names.push_back(command->get_name());
  }
  return names;
}

std::vector<std::string> Options(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// Words that are no command and options that the command does not have, found before the parser
// runs: its own errors name neither the command nor a word that is near.
Diagnostics UnknownWords(const CLI::App& app, const std::vector<std::string>& arguments) {
  const CLI::App* command = &app;
  std::string path = "stepcast";
  Diagnostics faults;
  std::size_t at = 0;
  for (; at < arguments.size() && !arguments[at].starts_with('-'); ++at) {
    const std::vector<const CLI::App*> known = command->get_subcommands(nullptr);
    if (known.empty()) break;
    const std::string& word = arguments[at];
    const auto found = std::find_if(known.begin(), known.end(), [&](const CLI::App* candidate) {
      return candidate->get_name() == word;
    });
    if (found == known.end()) {
      faults.push_back(WrongUse("command.unknown-command",
                                fmt::format("unknown command of {}: {}", path, Quoted(word)),
                                DidYouMean(word, Commands(*command))));
      return faults;
    }
    command = *found;
    path += " " + NameOf(*command);
  }
  for (; at < arguments.size(); ++at) {
    const std::string& argument = arguments[at];
    if (argument == "--") break;
    if (argument.size() < 2 || !argument.starts_with('-')) continue;
    const std::string name = argument.substr(0, argument.find('='));
    if (const CLI::Option* option = command->get_option_no_throw(name); option != nullptr) {
      // The next word belongs to the option, even if it starts with a dash.
      const bool takes_value = option->get_items_expected_max() > 0;
      if (takes_value && name.size() == argument.size()) ++at;
      continue;
    }
    faults.push_back(WrongUse("command.unknown-option",
                              fmt::format("unknown option of {}: {}", path, Quoted(name)),
                              DidYouMean(name, Options(*command))));
  }
  return faults;
}

Outcome RunSweep(SweepOptions& options) {
  ProgressLine line;
  if (ProgressLine::Possible()) {
    options.progress = [&](std::int64_t done, std::int64_t known, std::int64_t rows) {
      line.Show(done, known, rows);
    };
  }
  return Sweep(options);
}

// The same of a search.
class SearchLine {
 public:
  void Show(std::int64_t screened, std::int64_t simulated) {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_) return;
    constexpr std::chrono::milliseconds kPause(100);
    next_ = now + kPause;
    fmt::print(stderr, "\r{} {} bounded, {} simulated", screened, screened == 1 ? "plan" : "plans",
               simulated);
    std::fflush(stderr);
    shown_ = true;
  }
  ~SearchLine() {
    if (shown_) fmt::print(stderr, "\r\033[K");
  }

 private:
  std::chrono::steady_clock::time_point next_;
  bool shown_ = false;
};

Outcome RunPlan(PlanOptions& options) {
  SearchLine line;
  if (::isatty(STDERR_FILENO) == 1) {
    options.progress = [&](std::int64_t screened, std::int64_t simulated) {
      line.Show(screened, simulated);
    };
  }
  return Plan(options);
}

// What holds for options of every command: none has an empty value, as an unset variable of a
// script leaves it, and what is written is not what is read.
Diagnostics WrongValues(const CLI::App& app) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  Diagnostics faults;
  std::vector<NamedPath> inputs, outputs;
  for (const CLI::Option* option : command->get_options()) {
    const std::string name = option->get_positional() ? option->get_name(true) : option->get_name();
    for (const std::string& value : option->results()) {
      if (value.empty()) {
        faults.push_back(WrongUse("command.wrong-use",
                                  fmt::format("the value of {} is empty", name),
                                  "leave the option out, or give it a value"));
      } else if (option->get_positional() || name == "--kineto") {
        inputs.push_back({name, value});
      } else if (IsOutput(*option)) {
        outputs.push_back({name, value});
      }
    }
  }
  const Diagnostics same = CheckOutputPaths(inputs, outputs);
  faults.insert(faults.end(), same.begin(), same.end());
  return faults;
}

}  // namespace

Outcome RunCommandLine(std::vector<std::string> arguments) {
  const FilesRead files;  // none of which an output may replace
  if (arguments.size() > 1 && arguments[0] == "validate" &&
      (arguments[1] == "collectives" || arguments[1] == "published")) {
    arguments.erase(arguments.begin());
    arguments[0] = arguments[0] == "published" ? kValidatePublished : kValidateCollectives;
  }
  CLI::App app;
  Request request;
  Describe(app, request);
  if (arguments.empty()) return {kWrongInput, "", app.help("stepcast")};
  if (const Diagnostics faults = UnknownWords(app, arguments); !faults.empty()) {
    return WrongInput(faults);
  }
  try {
    // CLI11 takes the words last first.
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    return {kDone, Help(app), ""};
  } catch (const CLI::CallForVersion&) {
    return {kDone, fmt::format("{}\n", kVersion), ""};
  } catch (const CLI::ParseError& error) {
    std::string page = "stepcast";
    for (const CLI::App* command = &app; !command->get_subcommands().empty();) {
      command = command->get_subcommands().front();
      page += " " + NameOf(*command);
    }
    return WrongInput(
        {WrongUse("command.wrong-use", error.what(), fmt::format("see {} --help", page))});
  }
  if (const Diagnostics faults = WrongValues(app); !faults.empty()) return WrongInput(faults);
  if (app.got_subcommand("simulate")) {
    std::optional<bool> forced;
    if (request.timeline || request.no_timeline) forced = request.timeline;
    request.simulate.timeline = StdoutStyle(forced);
    return Simulate(request.simulate);
  }
  if (app.got_subcommand("memory")) return Memory(request.memory);
  if (app.got_subcommand("compare")) return Compare(request.compare);
  if (app.got_subcommand("explain")) return Explain(request.explain);
  if (app.got_subcommand("sweep")) return RunSweep(request.sweep);
  if (app.got_subcommand("plan")) return RunPlan(request.plan);
  if (app.got_subcommand("calibrate")) {
    if (app.get_subcommand("calibrate")->got_subcommand("import")) {
      return CalibrateImport(request.calibrate_import);
    }
    if (app.get_subcommand("calibrate")->got_subcommand("runs")) {
      return CalibrateRuns(request.calibrate_runs);
    }
    if (request.calibrate.backend.empty()) {
      return WrongInput({WrongUse("command.wrong-use", "--backend is required",
                                  "see stepcast calibrate --help")});
    }
    request.calibrate.version = kVersion;
    request.calibrate.command = "stepcast";
    for (const std::string& argument : arguments) request.calibrate.command += " " + argument;
    return Calibrate(request.calibrate);
  }
  if (app.got_subcommand("model")) return ModelImport(request.model_import);
  if (app.got_subcommand("collective")) return Collective(request.collective);
  if (app.got_subcommand("execute")) return Execute(request.execute);
  if (app.got_subcommand(kValidateCollectives)) {
    return ValidateCollectives(request.validate_collectives);
  }
  if (app.got_subcommand(kValidatePublished)) {
    return ValidatePublished(request.validate_published);
  }
  if (app.got_subcommand("validate")) return Validate(request.validate);
  if (app.get_subcommand("topology")->got_subcommand("import")) {
    return TopologyImport(request.topology_import);
  }
  return TopologyShow(request.topology_show);
}

}  // namespace stepcast::cli
