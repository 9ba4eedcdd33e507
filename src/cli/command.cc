#include "src/cli/command.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <deque>
#include <limits>
#include <map>
#include <string_view>
#include <type_traits>
#include <variant>

#include "CLI/CLI.hpp"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/check.h"
#include "src/base/diagnostic.h"
#include "src/cli/help.h"
#include "src/cli/word_hints.h"
#include "src/report/table.h"
#include "src/study/output_paths.h"

namespace stepcast::cli {
namespace {

// The text below a heading of help.txt; empty if there is no such heading.
std::string_view SectionOf(std::string_view heading) {
  static const std::map<std::string_view, std::string_view> sections = [] {
    std::map<std::string_view, std::string_view> all;
    std::string_view rest = HelpText().substr(std::string_view("# ").size());
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find("\n# "), rest.size());
      const std::string_view section = rest.substr(0, end);
      const std::string_view text = section.substr(section.find('\n') + 1);
      all.emplace(section.substr(0, section.find('\n')),
                  text.substr(0, text.find_last_not_of('\n') + 1));
      rest.remove_prefix(std::min(end + std::string_view("\n# ").size(), rest.size()));
    }
    return all;
  }();
  const auto found = sections.find(heading);
  return found == sections.end() ? std::string_view() : found->second;
}

// The text of a page in help.txt: its first paragraph, and the rest with an empty line at the end.
struct PageText {
  std::string about, footer;
};

PageText TextOf(const std::string& name) {
  const std::string page(SectionOf(name));
  STEPCAST_CHECK(!page.empty(), "help.txt has a text for each command");
  const std::size_t end = page.find("\n\n");
  if (end == std::string::npos) return {page, ""};
  return {page.substr(0, end), page.substr(end + 2) + "\n\n"};
}

// The help of an option, which the command has for itself or like several others.
std::string HelpOf(const std::string& command, const std::string& option) {
  std::string help = HelpEntry("options of " + command, option);
  if (help.empty()) help = HelpEntry("options", option);
  STEPCAST_CHECK(!help.empty(), "help.txt has a text for each option");
  return help;
}

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

const CommandPage& PageOf(const std::vector<CommandPage>& pages, std::string_view name) {
  const auto page = std::find_if(pages.begin(), pages.end(),
                                 [name](const CommandPage& each) { return each.name == name; });
  STEPCAST_CHECK(page != pages.end(), "each command has a page");
  return *page;
}

// Finds unknown commands and options before the parser runs, since its errors name neither the
// command nor a similar word.
Diagnostics UnknownWords(const CLI::App& app, const std::vector<std::string>& arguments,
                         const std::function<std::vector<CommandPage>()>& all_pages) {
  const CLI::App* command = &app;
  std::string path;
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
      const std::vector<CommandPage> pages = all_pages();
      faults.push_back(WrongUse("command.unknown-command",
                                fmt::format("unknown command of stepcast{}{}: {}",
                                            path.empty() ? "" : " ", path, Quoted(word)),
                                UnknownCommandHint(word, PageOf(pages, path), pages)));
      return faults;
    }
    command = *found;
    path += (path.empty() ? "" : " ") + NameOf(*command);
  }
  for (; at < arguments.size(); ++at) {
    const std::string& argument = arguments[at];
    if (argument == "--") break;
    if (argument.size() < 2 || !argument.starts_with('-')) continue;
    const std::size_t sign = argument.find('=');
    const std::string name = argument.substr(0, sign);
    if (const CLI::Option* option = command->get_option_no_throw(name); option != nullptr) {
      // The next word is the option's value, even if it starts with a dash.
      const bool takes_value = option->get_items_expected_max() > 0;
      if (takes_value && name.size() == argument.size()) ++at;
      continue;
    }
    std::string value;
    if (sign != std::string::npos) {
      value = argument.substr(sign + 1);
    } else if (at + 1 < arguments.size() && !arguments[at + 1].starts_with('-')) {
      value = arguments[at + 1];
    }
    const std::vector<CommandPage> pages = all_pages();
    faults.push_back(WrongUse("command.unknown-option",
                              fmt::format("unknown option of stepcast{}{}: {}",
                                          path.empty() ? "" : " ", path, Quoted(name)),
                              UnknownOptionHint(name, value, PageOf(pages, path), pages)));
  }
  return faults;
}

// The requested command.
const CLI::App& Deepest(const CLI::App& app) {
  const CLI::App* deepest = &app;
  while (!deepest->get_subcommands().empty()) deepest = deepest->get_subcommands().front();
  return *deepest;
}

std::string NameOf(const CLI::Option& option) {
  return option.get_positional() ? option.get_name(true) : option.get_name();
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
    const std::string name = NameOf(*option);
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

// One hyphenated word for a command whose words would be arguments of another: "validate
// collectives" would be the scenario "collectives" of `validate`.
std::string Hyphenated(std::string words) {
  std::replace(words.begin(), words.end(), ' ', '-');
  return words;
}

// Replaces the words of such a command by its hyphenated word.
void JoinWords(const CLI::App& app, std::vector<std::string>& words) {
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    if (!command->get_group().empty()) continue;
    std::string joined;
    for (std::size_t i = 0; i < words.size() && joined.size() < command->get_name().size(); ++i) {
      joined += (i == 0 ? "" : "-") + words[i];
      if (joined != command->get_name()) continue;
      words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(i));
      words.front() = joined;
      return;
    }
  }
}

bool TakesArguments(const CLI::App& app) {
  const std::vector<const CLI::Option*> options = app.get_options();
  return std::any_of(options.begin(), options.end(),
                     [](const CLI::Option* option) { return option->get_positional(); });
}

std::string ExitStatuses() { return TextOf("exit status").about + "\n"; }

// A validator's complaint: the rest of a sentence that starts with the option, and after a line
// break a hint, if there is one.

CLI::Validator Range(int least, int most) {
  const auto wrong = [least, most](const std::string& text) -> std::string {
    int value = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && stop == end && value >= least && value <= most) return "";
    return fmt::format("needs a whole number from {} to {}: {}", least, most, Quoted(text));
  };
  return {wrong, fmt::format("INT in [{} - {}]", least, most)};
}

CLI::Validator OneOf(const std::vector<std::string>& words) {
  const auto wrong = [words](std::string& text) -> std::string {
    if (std::string word = AllowedWord(text, words); !word.empty()) {
      text = std::move(word);
      return "";
    }
    const std::vector<std::string_view> views(words.begin(), words.end());
    const std::string_view near = NearestWord(text, views);
    return fmt::format("must be one of {}: {}{}", fmt::join(words, ", "), Quoted(text),
                       near.empty() ? "" : fmt::format("\ndid you mean '{}'?", near));
  };
  return {wrong, fmt::format("{{{}}}", fmt::join(words, ","))};
}

// A number from 0 to `most`. `shown`: the validator on help pages.
CLI::Validator NumberUpTo(double most, const char* shown) {
  const auto wrong = [most](const std::string& text) -> std::string {
    double value = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && stop == end && value >= 0 && value <= most) return "";
    return most < 2 ? fmt::format("needs a number from 0 to {}: {}", most, Quoted(text))
                    : fmt::format("needs a number that is not negative: {}", Quoted(text));
  };
  return {wrong, shown};
}

CLI::Option* AddSetting(const QuestionSetting& setting, const std::string& command, CLI::App& app) {
  const std::string help = setting.help.empty() ? HelpOf(command, setting.name) : setting.help;
  CLI::Option* const option = std::visit(
      [&](auto* variable) {
        if constexpr (std::is_same_v<decltype(variable), bool*>) {
          return app.add_flag(setting.name, *variable, help);
        } else {
          return app.add_option(setting.name, *variable, help);
        }
      },
      setting.variable);
  if (!setting.type.empty()) option->type_name(setting.type);
  if (setting.required) option->required();
  if (setting.commas) {
    option->delimiter(',')->allow_extra_args(false);
  } else if (!setting.argument() &&
             std::holds_alternative<std::vector<std::string>*>(setting.variable)) {
    // Each occurrence adds one value.
    option->type_size(1)->expected(1)->allow_extra_args(false)->take_all();
  }
  if (setting.not_negative)
    option->check(NumberUpTo(std::numeric_limits<double>::max(), "NONNEGATIVE"));
  if (setting.probability) option->check(NumberUpTo(1, "FLOAT in [0 - 1]"));
  if (!setting.words.empty()) option->transform(OneOf(setting.words));
  if (setting.range) option->check(Range(setting.range->first, setting.range->second));
  return option;
}

void AddSettings(const Command& command, CLI::App& app) {
  const Question& question = command.question;
  std::vector<CLI::Option*> options;
  for (const QuestionSetting& setting : question.settings()) {
    options.push_back(AddSetting(setting, command.name, app));
  }
  for (std::size_t i = 0; i < options.size(); ++i) {
    const QuestionSetting& setting = question.settings()[i];
    for (const std::string& other : setting.excludes) options[i]->excludes(app.get_option(other));
    for (const std::string& other : setting.needs) options[i]->needs(app.get_option(other));
  }
}

// The option that a parser's message begins with or contains. Null: none.
const CLI::Option* OptionIn(std::string_view message, const CLI::App& command) {
  const CLI::Option* found = nullptr;
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = NameOf(*option);
    const std::size_t at = message.find(name);
    if (at == std::string_view::npos) continue;
    if (found == nullptr || name.size() > NameOf(*found).size()) found = option;
  }
  return found;
}

// The mistake behind an error of the parser, in our words. `words`: the command line.
Diagnostics FaultsOf(const CLI::ParseError& error, const CLI::App& app,
                     const std::vector<CommandPage>& pages, const std::string& name,
                     const std::vector<std::string>& words) {
  const CLI::App& command = Deepest(app);
  const CommandPage& page = PageOf(pages, name);
  const std::string help = fmt::format("see stepcast{}{} --help", name.empty() ? "" : " ", name);
  Diagnostics faults;
  const auto add = [&faults](std::string message, std::string hint) {
    faults.push_back(WrongUse("command.wrong-use", std::move(message), std::move(hint)));
  };
  const std::string what = error.what();
  const CLI::Option* const option =
      OptionIn(std::string_view(what).substr(0, what.find(" = ")), command);
  const auto example = [&](const CLI::Option& of, const std::string& otherwise) {
    return OptionExample(NameOf(of), page, otherwise);
  };
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    for (const OptionPage& each : page.options) {
      const CLI::Option* const own = command.get_option_no_throw(each.names.back());
      if (own == nullptr || !own->get_required() || own->count() > 0) continue;
      add(fmt::format("{} is missing", each.names.back()), MissingHint(each, page, words));
    }
    if (faults.empty()) {
      std::vector<std::string> known;
      for (const CLI::App* below : command.get_subcommands(nullptr)) {
        if (!below->get_group().empty()) {
          known.push_back(
              fmt::format("stepcast {}{}{}", name, name.empty() ? "" : " ", below->get_name()));
        }
      }
      add(fmt::format("stepcast{}{} needs a command", name.empty() ? "" : " ", name),
          known.size() > 4 ? help : fmt::format("write {}", fmt::join(known, ", or ")));
    }
  } else if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const std::vector<std::string> extras = app.remaining(true);
    add(fmt::format("unexpected argument of stepcast {}: {}", name,
                    Quoted(extras.empty() ? what : extras.front())),
        UnexpectedHint(page, words));
  } else if (dynamic_cast<const CLI::ExcludesError*>(&error) != nullptr) {
    const std::string_view separator = " excludes ";
    const std::size_t at = what.find(separator);
    add(fmt::format("{} and {} cannot be used together", what.substr(0, at),
                    what.substr(std::min(at, what.size() - separator.size()) + separator.size())),
        "leave one of them out");
  } else if (dynamic_cast<const CLI::RequiresError*>(&error) != nullptr) {
    const std::string_view separator = " requires ";
    const std::size_t at = std::min(what.find(separator), what.size() - separator.size());
    const std::string needed = what.substr(at + separator.size());
    const CLI::Option* const other = command.get_option_no_throw(needed);
    const bool flag = other == nullptr || other->get_items_expected_max() == 0;
    add(fmt::format("{} needs {}", what.substr(0, at), needed),
        fmt::format("add {}", flag ? needed : example(*other, other->get_type_name())));
  } else if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr && option != nullptr) {
    const std::size_t sign = what.find(" = ");
    const std::string value = sign == std::string::npos ? "" : what.substr(sign + 3);
    if (option->get_items_expected_max() == 0) {
      add(fmt::format("{} takes no value: {}", NameOf(*option), Quoted(value)),
          fmt::format("write {}", NameOf(*option)));
    } else {
      const auto meant = WholeNumberMeant(value);
      add(fmt::format("{} takes a number, not {}", NameOf(*option), Quoted(value)),
          meant ? fmt::format("write {} {}", NameOf(*option), *meant)
                : fmt::format("for example: {}", example(*option, "2")));
    }
  } else if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr && option != nullptr) {
    if (option->count() > 1) {
      add(fmt::format("{} is given {} times", NameOf(*option), option->count()),
          fmt::format("give {} once", NameOf(*option)));
    } else if (option->get_items_expected_max() == 0) {
      add(fmt::format("{} takes no value", NameOf(*option)),
          fmt::format("write {}", NameOf(*option)));
    } else {
      const std::string type = option->get_type_name();
      add(fmt::format("{} needs a value", NameOf(*option)),
          fmt::format("for example: {}", example(*option, type.substr(0, type.find(':')))));
    }
  } else if (dynamic_cast<const CLI::ValidationError*>(&error) != nullptr && option != nullptr) {
    const std::size_t colon = what.find(": ");
    const std::size_t line = std::min(what.find('\n'), what.size());
    const std::string hint = what.substr(std::min(line + 1, what.size()));
    const bool number =
        !option->get_positional() && option->get_type_name().find('{') == std::string::npos;
    add(what.substr(0, colon) + what.substr(colon + 1, line - colon - 1),
        !hint.empty() ? hint
        : number      ? fmt::format("for example: {}", example(*option, "1"))
                      : help);
  } else {
    add(what, help);
  }
  return faults;
}

}  // namespace

std::string HelpEntry(std::string_view heading, std::string_view name) {
  const std::string text = fmt::format("\n{}\n", SectionOf(heading));
  const std::string start = fmt::format("\n{}: ", name);
  const std::size_t found = text.find(start);
  if (found == std::string::npos) return "";
  constexpr std::string_view kIndented = "\n    ";
  std::string entry;
  for (std::size_t begin = found + start.size();;) {
    const std::size_t end = text.find('\n', begin);
    entry += text.substr(begin, end - begin);
    if (text.compare(end, kIndented.size(), kIndented) != 0) return entry;
    entry += ' ';
    begin = end + kIndented.size();
  }
}

struct Program::Parser {
  CLI::App app;
  std::function<std::string()> version;
  std::deque<Command> commands;
  std::map<std::string, CLI::App*> by_name;  // of the words as the user types them
};

Program::Program(std::function<std::string()> version) : parser_(std::make_unique<Parser>()) {
  parser_->version = std::move(version);
  CLI::App& app = parser_->app;
  const PageText text = TextOf("stepcast");
  app.description(text.about);
  app.footer(text.footer + ExitStatuses());
  app.set_version_flag("-V,--version", std::string(), "Print version, commit and backends");
  app.require_subcommand(1);
  const auto page = std::make_shared<HelpPage>();
  page->column_width(24);
  page->label("Positionals", "Arguments");
  app.formatter(page);
}

Program::~Program() = default;

void Program::Add(Command command) {
  const std::size_t space = command.name.rfind(' ');
  const std::string above = space == std::string::npos ? "" : command.name.substr(0, space);
  const auto parent = parser_->by_name.find(above);
  std::string word = command.name.substr(space + 1);
  const PageText text = TextOf(command.name);
  CLI::App* app = parent == parser_->by_name.end() ? &parser_->app : parent->second;
  const bool unlisted = TakesArguments(*app);
  if (unlisted) {
    word = Hyphenated(command.name);
    app = &parser_->app;
  }
  // A group shows the text of its first command.
  if (app->get_footer().empty()) app->footer(text.footer + ExitStatuses());
  CLI::App* const own = app->add_subcommand(word, text.about)->group(unlisted ? "" : "Commands");
  own->footer(command.run ? text.footer + ExitStatuses() : "");
  if (!command.run) own->require_subcommand(1);
  AddSettings(command, *own);
  parser_->by_name.emplace(command.name, own);
  parser_->commands.push_back(std::move(command));
}

Program::Parsed Program::Parse(std::vector<std::string> words) {
  CLI::App& app = parser_->app;
  // "help sweep" is "sweep --help".
  if (!words.empty() && words.front() == "help") {
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  if (words.empty()) return {nullptr, {kWrongInput, "", app.help("stepcast")}};
  const std::vector<std::string> typed = words;
  JoinWords(app, words);
  const auto unknown = UnknownWords(app, words, [this] { return Pages(); });
  if (!unknown.empty()) return {nullptr, WrongInput(unknown)};
  const auto path = [&app] {
    std::string names;
    for (const CLI::App* command = &app; !command->get_subcommands().empty();) {
      command = command->get_subcommands().front();
      names += (names.empty() ? "" : " ") + NameOf(*command);
    }
    return names;
  };
  try {
    // CLI11 takes the words in reverse order.
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::CallForHelp&) {
    return {nullptr, {kDone, Help(app), ""}};
  } catch (const CLI::CallForVersion&) {
    return {nullptr, {kDone, parser_->version(), ""}};
  } catch (const CLI::ParseError& error) {
    return {nullptr, WrongInput(FaultsOf(error, app, Pages(), path(), typed))};
  }
  if (const Diagnostics faults = WrongValues(app); !faults.empty()) {
    return {nullptr, WrongInput(faults)};
  }
  const std::string name = path();
  const auto parsed = std::find_if(parser_->commands.begin(), parser_->commands.end(),
                                   [&](const Command& command) { return command.name == name; });
  STEPCAST_CHECK(parsed != parser_->commands.end(), "a parsed command was added");
  return {&*parsed, {}};
}

std::vector<CommandPage> Program::Pages() const {
  std::vector<CommandPage> pages;
  AddPages(parser_->app, "", pages);
  for (const Command& command : parser_->commands) {
    const auto page = std::find_if(pages.begin(), pages.end(), [&](const CommandPage& other) {
      return other.name == command.name;
    });
    for (const QuestionSetting& setting : command.question.settings()) {
      const auto option =
          std::find_if(page->options.begin(), page->options.end(),
                       [&](const OptionPage& other) { return other.names.back() == setting.name; });
      if (option != page->options.end()) option->offers = setting.offers;
    }
  }
  return pages;
}

}  // namespace stepcast::cli
