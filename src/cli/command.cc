#include "src/cli/command.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "CLI/CLI.hpp"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/diagnostic.h"
#include "src/report/table.h"
#include "src/study/output_paths.h"

namespace stepcast::cli {
namespace {

constexpr const char* kExitStatus =
    "Exit status:\n"
    "  0  done\n"
    "  1  failed (a file cannot be written, a rank died, a bug)\n"
    "  2  the input or the command line is wrong: see stderr; nothing is on stdout\n"
    "  3  done, and the answer is no: it does not fit in memory, the forecast is too far off\n"
    "  4  done, and the plan fits less probably than --fit-probability asks for\n";

// The name as the user types it. Commands of two words with a page of their own, such as `validate
// collectives`, are one hyphenated word outside of any group.
std::string NameOf(const CLI::App& command) {
  std::string name = command.get_name();
  if (command.get_group().empty()) std::replace(name.begin(), name.end(), '-', ' ');
  return name;
}

// CLI11's page without repetitions: types of positionals, mutual exclusions, and full descriptions
// in the list of commands.
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
    return Entry("  " + command->get_name(), line);
  }
  std::string make_option(const CLI::Option* option, bool positional) const override {
    return Entry("  " + make_option_name(option, positional) + make_option_opts(option),
                 make_option_desc(option));
  }
  std::string make_description(const CLI::App* app) const override {
    return report::Reflowed(CLI::Formatter::make_description(app));
  }
  std::string make_footer(const CLI::App* app) const override {
    return report::Reflowed(CLI::Formatter::make_footer(app));
  }

 private:
  // A name and its description, which goes below a name that is too long.
  std::string Entry(const std::string& name, const std::string& text) const {
    const std::size_t column = get_column_width();
    std::string out = report::Wrapped(name);
    std::size_t at = report::WidthOf(out.substr(out.rfind('\n') + 1));
    for (const std::string& line : report::WrapWords(text, report::TextWidth() - column)) {
      if (at + 1 > column) {
        out += '\n';
        at = 0;
      }
      out += std::string(column - at, ' ') + line;
      at = column;
    }
    return out + '\n';
  }
};

// "NAME:{ring,tree}" is a type and its allowed values.
OptionPage PageOf(const CLI::Option& option) {
  OptionPage page;
  page.argument = option.get_positional();
  if (page.argument) page.names.push_back(option.get_name(true));
  for (const std::string& name : option.get_snames()) page.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) page.names.push_back("--" + name);
  page.help = option.get_description();
  const std::string type = option.get_items_expected_max() > 0 ? option.get_type_name() : "";
  page.type = type.substr(0, type.find(':'));
  const std::size_t open = type.find('{');
  const std::size_t close = type.find('}');
  if (open != std::string::npos && close != std::string::npos) {
    for (std::size_t at = open + 1; at < close;) {
      const std::size_t end = std::min(type.find(',', at), close);
      page.words.push_back(type.substr(at, end - at));
      at = end + 1;
    }
  }
  return page;
}

// Adds the pages of the command and its subcommands. `above`: the words typed before its name.
void AddPages(const CLI::App& app, const std::string& above, std::vector<CommandPage>& pages) {
  CommandPage page;
  const bool program = app.get_parent() == nullptr;
  page.name = program ? "" : above + NameOf(app);
  std::string usage = HelpPage().make_usage(&app, program ? "stepcast" : "stepcast " + page.name);
  page.usage = usage.substr(std::string_view("\nUsage: ").size());
  page.usage.pop_back();
  page.about = app.get_description();
  page.footer = app.get_footer();
  for (const CLI::Option* option : app.get_options()) page.options.push_back(PageOf(*option));
  pages.push_back(page);
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    AddPages(*command, program ? "" : page.name + " ", pages);
  }
}

// One page per command; CLI11's own would include the application's options.
std::string Help(const CLI::App& app) {
  const CLI::App* deepest = &app;
  std::string name = "stepcast";
  while (!deepest->get_subcommands().empty()) {
    deepest = deepest->get_subcommands().front();
    name += " " + deepest->get_name();
  }
  // CLI11 appends the command's own name.
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

// Finds unknown commands and options before the parser runs, since its errors name neither the
// command nor a similar word.
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
      // The next word is the option's value, even if it starts with a dash.
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

// The requested command.
const CLI::App& Deepest(const CLI::App& app) {
  const CLI::App* deepest = &app;
  while (!deepest->get_subcommands().empty()) deepest = deepest->get_subcommands().front();
  return *deepest;
}

bool IsOutput(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return !option.get_positional() && (type == kFile || type == kFolder);
}

// Checks options of every command: no value is empty, as an unset variable in a script would make
// it, and no output replaces an input.
Diagnostics WrongValues(const CLI::App& app) {
  Diagnostics faults;
  std::vector<study::NamedPath> inputs, outputs;
  for (const CLI::Option* option : Deepest(app).get_options()) {
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
  const Diagnostics same = study::CheckOutputPaths(inputs, outputs);
  faults.insert(faults.end(), same.begin(), same.end());
  return faults;
}

}  // namespace

Option Option::Type(const std::string& name) const {
  option_->type_name(name);
  return *this;
}

Option Option::Required() const {
  option_->required();
  return *this;
}

Option Option::Excludes(const Option& other) const {
  option_->excludes(other.option_);
  return *this;
}

Option Option::Needs(const Option& other) const {
  option_->needs(other.option_);
  return *this;
}

Option Option::Between(int least, int most) const {
  const auto wrong = [least, most](const std::string& text) -> std::string {
    int value = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && stop == end && value >= least && value <= most) return "";
    return fmt::format("a whole number from {} to {} is needed, not {}", least, most, Quoted(text));
  };
  option_->check(CLI::Validator(wrong, fmt::format("INT in [{} - {}]", least, most)));
  return *this;
}

Option Option::NotNegative() const {
  option_->check(CLI::NonNegativeNumber);
  return *this;
}

Option Option::Probability() const {
  option_->check(CLI::Range(0.0, 1.0));
  return *this;
}

Option Option::OneOf(const std::vector<std::string>& words) const {
  const auto wrong = [words](const std::string& text) -> std::string {
    if (std::find(words.begin(), words.end(), text) != words.end()) return "";
    const std::vector<std::string_view> views(words.begin(), words.end());
    const std::string_view near = NearestWord(text, views);
    return fmt::format("{} is none of {}{}", Quoted(text), fmt::join(words, ", "),
                       near.empty() ? "" : fmt::format("; did you mean '{}'?", near));
  };
  option_->check(CLI::Validator(wrong, fmt::format("{{{}}}", fmt::join(words, ","))));
  return *this;
}

Option Option::Repeated() const {
  option_->type_size(1)->expected(1)->allow_extra_args(false)->take_all();
  return *this;
}

Option Option::Commas() const {
  option_->delimiter(',')->allow_extra_args(false);
  return *this;
}

Command Command::Add(const std::string& name, const std::string& about, const std::string& footer) {
  CLI::App* command = app_->add_subcommand(name, about)->group("Commands");
  command->footer(footer + kExitStatus);
  return Command(command);
}

Command Command::AddGroup(const std::string& name, const std::string& about,
                          const std::string& footer) {
  const Command group = Add(name, about, footer);
  group.app_->require_subcommand(1);
  return group;
}

Command Command::AddUnlisted(const std::string& name, const std::string& about,
                             const std::string& footer) {
  const Command command = Add(name, about, footer);
  // A group with an empty name hides the hyphenated command from the overview.
  command.app_->group("");
  return command;
}

Option Command::AddFlag(const std::string& name, bool& value, const std::string& help) {
  return Option(app_->add_flag(name, value, help));
}

Option Command::AddOption(const std::string& name, std::string& value, const std::string& help) {
  return Option(app_->add_option(name, value, help));
}

Option Command::AddOption(const std::string& name, int& value, const std::string& help) {
  return Option(app_->add_option(name, value, help));
}

Option Command::AddOption(const std::string& name, std::optional<int>& value,
                          const std::string& help) {
  return Option(app_->add_option(name, value, help));
}

Option Command::AddOption(const std::string& name, std::optional<std::int64_t>& value,
                          const std::string& help) {
  return Option(app_->add_option(name, value, help));
}

Option Command::AddOption(const std::string& name, std::optional<double>& value,
                          const std::string& help) {
  return Option(app_->add_option(name, value, help));
}

Option Command::AddOption(const std::string& name, std::optional<std::string>& value,
                          const std::string& help) {
  return Option(app_->add_option(name, value, help));
}

Option Command::AddOption(const std::string& name, std::vector<std::string>& value,
                          const std::string& help) {
  return Option(app_->add_option(name, value, help));
}

Option Command::AddOption(const std::string& name, std::vector<int>& value,
                          const std::string& help) {
  return Option(app_->add_option(name, value, help));
}

Option Command::At(const std::string& name) const { return Option(app_->get_option(name)); }

Program::Program(std::function<std::string()> version, const std::string& about,
                 const std::string& footer)
    : app_(std::make_unique<CLI::App>()), version_(std::move(version)) {
  app_->description(about);
  app_->footer(footer + kExitStatus);
  app_->set_version_flag("-V,--version", std::string(), "Print version, commit and backends");
  app_->require_subcommand(1);
  const auto page = std::make_shared<HelpPage>();
  page->column_width(24);
  page->label("Positionals", "Arguments");
  app_->formatter(page);
}

Program::~Program() = default;

Command Program::Commands() { return Command(app_.get()); }

Program::Parsed Program::Parse(std::vector<std::string> words) {
  // "help sweep" is "sweep --help".
  if (!words.empty() && words.front() == "help") {
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  if (words.empty()) return {"", {kWrongInput, "", app_->help("stepcast")}};
  if (const Diagnostics faults = UnknownWords(*app_, words); !faults.empty()) {
    return {"", WrongInput(faults)};
  }
  const auto path = [this] {
    std::string names;
    for (const CLI::App* command = app_.get(); !command->get_subcommands().empty();) {
      command = command->get_subcommands().front();
      names += " " + NameOf(*command);
    }
    return names;
  };
  try {
    // CLI11 takes the words in reverse order.
    app_->parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::CallForHelp&) {
    return {"", {kDone, Help(*app_), ""}};
  } catch (const CLI::CallForVersion&) {
    return {"", {kDone, version_(), ""}};
  } catch (const CLI::ConversionError& error) {
    // "Could not convert: --nodes = eight"
    const std::string_view what = error.what();
    const std::size_t name = what.find("--"), sign = what.find(" = ");
    const bool known = name != std::string_view::npos && sign != std::string_view::npos;
    return {"", WrongInput({WrongUse(
                    "command.wrong-use",
                    known ? fmt::format("{} takes a number, not {}", what.substr(name, sign - name),
                                        Quoted(what.substr(sign + 3)))
                          : std::string(what),
                    fmt::format("see stepcast{} --help", path()))})};
  } catch (const CLI::ParseError& error) {
    return {"", WrongInput({WrongUse("command.wrong-use", error.what(),
                                     fmt::format("see stepcast{} --help", path()))})};
  }
  if (const Diagnostics faults = WrongValues(*app_); !faults.empty()) {
    return {"", WrongInput(faults)};
  }
  return {path().substr(1), {}};
}

std::vector<CommandPage> Program::Pages() const {
  std::vector<CommandPage> pages;
  AddPages(*app_, "", pages);
  return pages;
}

}  // namespace stepcast::cli
