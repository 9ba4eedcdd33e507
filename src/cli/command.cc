#include "src/cli/command.h"

#include <getopt.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <deque>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <variant>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/check.h"
#include "src/base/diagnostic.h"
#include "src/cli/help.h"
#include "src/cli/word_hints.h"
#include "src/report/command_text.h"
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
  STEPCAST_CHECK(!page.empty(), "help.txt must have a text for each command");
  const std::size_t end = page.find("\n\n");
  if (end == std::string::npos) return {page, ""};
  return {page.substr(0, end), page.substr(end + 2) + "\n\n"};
}

// The help of an option, which the command has for itself or like several others.
std::string HelpOf(const std::string& command, const std::string& option) {
  std::string help = HelpEntry("options of " + command, option);
  if (help.empty()) help = HelpEntry("options", option);
  STEPCAST_CHECK(!help.empty(), "help.txt must have a text for each option");
  return help;
}

std::string ExitStatuses() { return TextOf("exit status").about + "\n"; }

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

// A name and its description, which goes below a name that is too long.
std::string Entry(const std::string& name, const std::string& text) {
  constexpr std::size_t kColumn = 24;
  std::string out = report::Wrapped("  " + name);
  std::size_t at = report::WidthOf(out.substr(out.rfind('\n') + 1));
  for (const std::string& line : report::WrapWords(text, report::TextWidth() - kColumn)) {
    if (at + 1 > kColumn) {
      out += '\n';
      at = 0;
    }
    out += std::string(kColumn - at, ' ') + line;
    at = kColumn;
  }
  return out + '\n';
}

// The option as its help page shows it, with its allowed values.
std::string ShownName(const QuestionSetting& setting) {
  if (setting.argument() || setting.type.empty()) return setting.name;
  std::string text = setting.name + " " + setting.type;
  if (setting.not_negative) text += ":NONNEGATIVE";
  if (setting.probability) text += ":FLOAT in [0 - 1]";
  if (!setting.words.empty()) text += fmt::format(":{{{}}}", fmt::join(setting.words, ","));
  if (setting.range) {
    text += fmt::format(":INT in [{} - {}]", setting.range->first, setting.range->second);
  }
  return text;
}

bool IsFlag(const QuestionSetting& setting) {
  return std::holds_alternative<bool*>(setting.variable);
}

bool TakesSeveral(const QuestionSetting& setting) {
  return std::holds_alternative<std::vector<std::string>*>(setting.variable) ||
         std::holds_alternative<std::vector<int>*>(setting.variable);
}

// The name in messages: the first long one.
std::string NameOf(const QuestionSetting& setting) {
  const std::size_t begin = setting.name.starts_with("--") ? 0 : setting.name.find("--");
  return Split(setting.name.substr(begin == std::string::npos ? 0 : begin), ',').front();
}

bool HasName(const QuestionSetting& setting, const std::string& name) {
  const std::vector<std::string> names = Split(setting.name, ',');
  return std::find(names.begin(), names.end(), name) != names.end();
}

Diagnostic WrongUse(std::string message, std::string hint, const char* code = "command.wrong-use") {
  return {code, {"command line", 0, 0}, std::move(message), std::move(hint)};
}

const CommandPage& PageOf(const std::vector<CommandPage>& pages, std::string_view name) {
  const auto page = std::find_if(pages.begin(), pages.end(),
                                 [name](const CommandPage& each) { return each.name == name; });
  STEPCAST_CHECK(page != pages.end(), "each command must have a help page");
  return *page;
}

template <typename T>
bool ReadNumber(const std::string& text, T& number) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end;
}

// A setting of the command with its values in the command line.
struct Given {
  const QuestionSetting* setting = nullptr;
  int times = 0;
  std::vector<std::string> values{};
};

// The words of a command line behind the command's name.
struct TypedLine {
  std::string name;                  // of the command; empty: the program itself
  std::vector<std::string> words{};  // all words that were typed
  std::vector<Given> given{};        // all settings of the command, in their order
  std::vector<std::string> extra{};  // arguments beyond those of the command
  bool help = false, version = false;

  std::string Title() const { return name.empty() ? "stepcast" : "stepcast " + name; }
  std::string SeeHelp() const { return fmt::format("see {} --help", Title()); }
  Given* Find(const std::string& option) {
    const auto found = std::find_if(given.begin(), given.end(), [&](const Given& one) {
      return HasName(*one.setting, option);
    });
    return found == given.end() ? nullptr : &*found;
  }
};

// "--set KEY VALUE" is two words; the second would be taken for an argument.
std::optional<Diagnostic> WithoutSign(const QuestionSetting& setting, const std::string& name,
                                      const std::string& key, const std::string& next) {
  std::error_code error;
  if (!setting.type.starts_with("KEY=") || key.find('=') != std::string::npos ||
      next.starts_with('-') || std::filesystem::exists(next, error)) {
    return std::nullopt;
  }
  return WrongUse(fmt::format("{} needs {}: {}", name, setting.type, Quoted(key)),
                  fmt::format("write {}", report::CommandLine({{name, key + "=" + next}, {}})));
}

// The options of a command in the form that getopt_long takes.
class KnownOptions {
 public:
  // What Next() finds besides '?' (an unknown option), ':' (no value), and -1 (the end).
  static constexpr int kArgument = 1, kOption = 2;

  explicit KnownOptions(const TypedLine& line) {
    Add("-h,--help", no_argument);
    if (line.name.empty()) Add("-V,--version", no_argument);
    // A flag may have a value here, because SetVariables() has a message for that.
    for (const Given& one : line.given) {
      Add(one.setting->name, IsFlag(*one.setting) ? optional_argument : required_argument);
    }
    long_.push_back({});
  }

  // Reads the next of the words, which begin with the program and end with a null pointer.
  int Next(const std::vector<char*>& words) const {
    opterr = 0;  // the messages are ours
    const int found = getopt_long(static_cast<int>(words.size()) - 1, words.data(), short_.c_str(),
                                  long_.data(), nullptr);
    return std::isalpha(found) != 0 ? kOption : found;
  }

 private:
  void Add(const std::string& names, int value) {
    for (const std::string& name : Split(names, ',')) {
      if (name.starts_with("--")) {
        long_.push_back({names_.emplace_back(name.substr(2)).c_str(), value, nullptr, kOption});
      } else if (name.starts_with('-')) {
        short_ += name.substr(1) + (value == required_argument ? ":" : "");
      }
    }
  }

  std::deque<std::string> names_;  // `long_` points to them
  std::vector<option> long_;
  std::string short_ = "-:";  // getopt_long keeps the order of arguments, and finds ':'
};

// Assigns the words from `at` to the settings. Returns mistakes in the words themselves.
Diagnostics ReadTyped(std::size_t at, TypedLine& line,
                      const std::function<std::vector<CommandPage>()>& pages) {
  std::string program = "stepcast";
  std::vector<char*> words = {program.data()};
  for (std::size_t i = at; i < line.words.size(); ++i) words.push_back(line.words[i].data());
  words.push_back(nullptr);
  const KnownOptions options(line);
  Diagnostics unknown, missing;
  std::vector<std::string> arguments;
  int place = 1, found = 0, wrong = 0;
  for (optind = 0; (found = options.Next(words)) != -1; place = optind) {
    const std::string word = words[static_cast<std::size_t>(place)];
    const char* const next = words[static_cast<std::size_t>(std::max(optind, place + 1))];
    const std::size_t sign = word.find('=');
    const std::string name = word.substr(0, word.starts_with("--") || found == '?' ? sign : 2);
    Given* const own = line.Find(name);
    if (found == KnownOptions::kArgument) {
      arguments.emplace_back(optarg);
    } else if (name == "-h" || name == "--help") {
      line.help = true;
    } else if (line.name.empty() && (name == "-V" || name == "--version")) {
      line.version = true;
    } else if (own == nullptr) {  // getopt_long also finds "--he" and each letter of "-tp"
      if (place == std::exchange(wrong, place)) continue;
      const bool next_is_value = optarg == nullptr && next != nullptr && *next != '-';
      const std::string value = sign != std::string::npos ? word.substr(sign + 1)
                                : next_is_value           ? next
                                : optarg != nullptr       ? optarg
                                                          : "";
      const std::vector<CommandPage> all = pages();
      unknown.push_back(
          WrongUse(fmt::format("unknown option of {}: {}", line.Title(), Quoted(name)),
                   UnknownOptionHint(name, value, PageOf(all, line.name), all, line.words),
                   "command.unknown-option"));
    } else if (found == ':') {
      ++own->times;
      missing.push_back(
          WrongUse(fmt::format("{} needs a value", NameOf(*own->setting)),
                   fmt::format("for example: {}",
                               OptionExample(NameOf(*own->setting), PageOf(pages(), line.name),
                                             own->setting->type))));
    } else {
      ++own->times;
      if (optarg != nullptr) own->values.emplace_back(optarg);
      if (arguments.empty() || next == nullptr || sign != std::string::npos || optarg == nullptr) {
        continue;
      }
      if (auto fault = WithoutSign(*own->setting, name, optarg, next)) {
        unknown.push_back(*std::move(fault));
        ++optind;
      }
    }
  }
  for (; words[static_cast<std::size_t>(optind)] != nullptr; ++optind) {
    arguments.emplace_back(words[static_cast<std::size_t>(optind)]);
  }
  auto next = arguments.begin();
  for (Given& one : line.given) {
    while (one.setting->argument() && next != arguments.end() &&
           (one.times == 0 || TakesSeveral(*one.setting))) {
      one.values.push_back(*next++);
      ++one.times;
    }
  }
  line.extra.assign(next, arguments.end());
  if (!unknown.empty()) return unknown;
  return line.help || line.version ? Diagnostics() : missing;
}

// Returns what is wrong with a value of the option `name`, or an empty string. Replaces a word by
// its usual spelling. `hint` may stay empty.
std::string Complaint(const QuestionSetting& setting, std::string_view name, std::string& value,
                      std::string& hint) {
  double number = 0;
  const bool is_number = ReadNumber(value, number) && number >= 0;
  if (setting.not_negative && !is_number) {
    return fmt::format("{} needs a number of at least 0, not {}", name, Quoted(value));
  }
  if (setting.probability && !(is_number && number <= 1)) {
    return fmt::format("{} needs a number from 0 to 1, not {}", name, Quoted(value));
  }
  if (!setting.words.empty()) {
    if (std::string word = AllowedWord(value, setting.words); !word.empty()) {
      value = std::move(word);
      return "";
    }
    const std::string_view near = NearestWord(value, {setting.words.begin(), setting.words.end()});
    if (!near.empty()) hint = fmt::format("did you mean '{}'?", near);
    return fmt::format("{} must be one of {}: {}", name, fmt::join(setting.words, ", "),
                       Quoted(value));
  }
  int whole = 0;
  if (setting.range && !(ReadNumber(value, whole) && whole >= setting.range->first &&
                         whole <= setting.range->second)) {
    return fmt::format("{} needs an integer from {} to {}, not {}", name, setting.range->first,
                       setting.range->second, Quoted(value));
  }
  return "";
}

// Sets a setting's variable. Returns the first value that is no number where one is due.
std::optional<std::string> Set(const Given& given) {
  std::optional<std::string> wrong;
  const auto read = [&](const std::string& value, auto& number) {
    if (!wrong && !ReadNumber(value, number)) wrong = value;
  };
  std::visit(
      [&](auto* variable) {
        using T = std::remove_pointer_t<decltype(variable)>;
        if constexpr (std::is_same_v<T, bool>) {
          *variable = true;
        } else if constexpr (std::is_same_v<T, std::string>) {
          *variable = given.values.back();
        } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          *variable = given.values;
        } else if constexpr (std::is_same_v<T, std::vector<int>>) {
          variable->clear();
          for (const std::string& value : given.values) read(value, variable->emplace_back());
        } else if constexpr (std::is_same_v<T, int>) {
          read(given.values.back(), *variable);
        } else {
          read(given.values.back(), variable->emplace());
        }
      },
      given.setting->variable);
  return wrong;
}

// "KEY=VALUE" for "KEY = VALUE".
std::string WithoutBlanks(const std::string& setting) {
  constexpr const char* kBlanks = " \t";
  const std::size_t sign = setting.find('=');
  const std::size_t end = setting.find_last_not_of(kBlanks, sign - 1);
  if (sign == 0 || sign == std::string::npos || end == std::string::npos) return setting;
  const std::size_t value = setting.find_first_not_of(kBlanks, sign + 1);
  const std::size_t begin = setting.find_first_not_of(kBlanks);
  return setting.substr(begin, end + 1 - begin) + "=" +
         (value == std::string::npos ? "" : setting.substr(value));
}

// Sets the variables of the settings that are given. Returns the first mistake.
std::optional<Diagnostic> SetVariables(TypedLine& line, const CommandPage& page) {
  for (Given& given : line.given) {
    if (given.times == 0) continue;
    const QuestionSetting& setting = *given.setting;
    const std::string name = NameOf(setting);
    const auto example = [&](const std::string& otherwise) {
      return fmt::format("for example: {}", OptionExample(name, page, otherwise));
    };
    if (IsFlag(setting) && !given.values.empty()) {
      return WrongUse(
          fmt::format("{} must not have a value: {}", name, Quoted(given.values.back())),
          fmt::format("write {}", name));
    }
    if (setting.commas) {
      std::vector<std::string> parts;
      for (const std::string& value : given.values) {
        for (std::string& part : Split(value, ',')) {
          if (!part.empty() || value.empty()) parts.push_back(std::move(part));
        }
      }
      given.values = std::move(parts);
    }
    for (std::string& value : given.values) {
      if (setting.type.starts_with("KEY=")) value = WithoutBlanks(value);
      std::string hint;
      std::string complaint = Complaint(setting, name, value, hint);
      if (complaint.empty()) continue;
      const bool number = !setting.argument() && setting.words.empty();
      if (hint.empty()) hint = number ? example("1") : line.SeeHelp();
      return WrongUse(std::move(complaint), std::move(hint));
    }
    if (given.times > 1 && !IsFlag(setting) && !TakesSeveral(setting)) {
      const std::string both = GpusMeant(name, given.values);
      return WrongUse(
          fmt::format("the command line contains {} {} times", name, given.times),
          both.empty() ? fmt::format("write {} only once", name) : fmt::format("write {}", both));
    }
    if (const auto wrong = Set(given)) {
      const auto meant = WholeNumberMeant(*wrong);
      return WrongUse(fmt::format("{} needs a number, not {}", name, Quoted(*wrong)),
                      meant ? fmt::format("write {} {}", name, *meant) : example("2"));
    }
  }
  return std::nullopt;
}

// Mistakes in the combination of what is given.
Diagnostics WrongCombination(TypedLine& line, const CommandPage& page) {
  const auto excludes = [](const QuestionSetting& a, const QuestionSetting& b) {
    return std::any_of(a.excludes.begin(), a.excludes.end(),
                       [&](const std::string& name) { return HasName(b, name); });
  };
  for (const Given& given : line.given) {
    const QuestionSetting& setting = *given.setting;
    if (setting.required && given.times == 0) {
      Diagnostics missing;
      for (std::size_t i = 0; i < line.given.size(); ++i) {
        if (!line.given[i].setting->required || line.given[i].times > 0) continue;
        const OptionPage& option = page.options[i + 1];  // below --help
        missing.push_back(WrongUse(fmt::format("{} is missing", option.names.back()),
                                   MissingHint(option, page, line.words)));
      }
      return missing;
    }
    if (given.times == 0) continue;
    for (const std::string& needed : setting.needs) {
      const Given& other = *line.Find(needed);
      if (other.times > 0) continue;
      return {
          WrongUse(fmt::format("{} needs {}", NameOf(setting), needed),
                   fmt::format("add {}", IsFlag(*other.setting)
                                             ? needed
                                             : OptionExample(needed, page, other.setting->type)))};
    }
    for (const Given& other : line.given) {
      if (other.times == 0 ||
          !(excludes(setting, *other.setting) || excludes(*other.setting, setting))) {
        continue;
      }
      return {WrongUse(
          fmt::format("{} and {} cannot be used together", NameOf(setting), NameOf(*other.setting)),
          "omit one of the two options")};
    }
  }
  if (line.extra.empty()) return {};
  return {WrongUse(
      fmt::format("unexpected argument of {}: {}", line.Title(), Quoted(line.extra.front())),
      UnexpectedHint(page, line.words))};
}

// The extensions of files that an option writes. Other options may write any file.
constexpr std::pair<std::string_view, std::string_view> kExtensions[] = {
    {"--report", ".html .html.gz"},
    {"--trace", ".json .json.gz"},
};

// Returns the extensions for the option if the path has a different one. Paths without an extension
// may be pipes and devices.
std::string_view OtherExtensions(std::string_view option, std::string_view path) {
  const std::string_view file = path.substr(path.rfind('/') + 1);
  if (file.find('.', 1) == std::string_view::npos) return "";
  for (const auto& [name, extensions] : kExtensions) {
    if (name != option) continue;
    for (const std::string& extension : Split(extensions, ' ')) {
      if (file.ends_with(extension)) return "";
    }
    return extensions;
  }
  return "";
}

// Checks options of every command: no value is empty, as an unset variable in a script would make
// it, no output replaces an input, and the extension of an output matches its content.
Diagnostics WrongValues(const TypedLine& line) {
  Diagnostics faults;
  std::vector<study::NamedPath> inputs, outputs;
  for (const Given& given : line.given) {
    const QuestionSetting& setting = *given.setting;
    const std::string name = NameOf(setting);
    for (const std::string& value : given.values) {
      if (value.empty()) {
        faults.push_back(WrongUse(fmt::format("the value of {} is empty", name),
                                  "omit the option, or write a value"));
      } else if (setting.argument() || name == "--kineto") {
        inputs.push_back({name, value});
      } else if (setting.type == kFile || setting.type == kFolder) {
        outputs.push_back({name, value});
        const std::string_view extensions = OtherExtensions(name, value);
        if (extensions.empty()) continue;
        faults.push_back(WrongUse(
            fmt::format("{} writes files with the extension {}: {}", name,
                        fmt::join(Split(extensions, ' '), " or "), Quoted(value)),
            fmt::format("write {}", report::CommandLine({{name, value.substr(0, value.rfind('.')) +
                                                                    Split(extensions, ' ')[0]},
                                                         {}}))));
      }
    }
  }
  const Diagnostics same = study::CheckOutputPaths(inputs, outputs);
  faults.insert(faults.end(), same.begin(), same.end());
  return faults;
}

bool TakesArguments(const Command& command) {
  const auto& settings = command.question.settings();
  return std::any_of(settings.begin(), settings.end(),
                     [](const QuestionSetting& setting) { return setting.argument(); });
}

std::string Above(const std::string& name) {
  const std::size_t space = name.rfind(' ');
  return space == std::string::npos ? "" : name.substr(0, space);
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
  std::function<std::string()> version;
  std::deque<Command> commands;

  const Command* Find(const std::string& name) const {
    const auto found = std::find_if(commands.begin(), commands.end(),
                                    [&](const Command& one) { return one.name == name; });
    return found == commands.end() ? nullptr : &*found;
  }

  // The commands that are listed below a command, or below the program. The arguments of an upper
  // command would hide them: "validate collectives" might be the scenario "collectives".
  std::vector<const Command*> Below(const std::string& name) const {
    std::vector<const Command*> below;
    const Command* const own = Find(name);
    if (own != nullptr && TakesArguments(*own)) return below;
    for (const Command& command : commands) {
      if (Above(command.name) == name) below.push_back(&command);
    }
    return below;
  }

  std::string Footer(const std::string& name) const {
    const Command* const own = Find(name);
    // A group shows the text of its first command.
    const bool group = own != nullptr && !own->run;
    return TextOf(name.empty() ? "stepcast"
                  : group      ? Below(name).front()->name
                               : name)
               .footer +
           ExitStatuses();
  }

  CommandPage Page(const std::string& name) const {
    CommandPage page{.name = name, .usage = name.empty() ? "stepcast" : "stepcast " + name};
    page.about = TextOf(name.empty() ? "stepcast" : name).about;
    page.footer = Footer(name);
    page.options.push_back({.names = {"-h", "--help"}, .help = "Print this help message and exit"});
    const Command* const own = Find(name);
    if (own == nullptr) {
      page.options.push_back(
          {.names = {"-V", "--version"}, .help = "Print version, commit and backends"});
    }
    const bool runs = own != nullptr && own->run;
    if (!Below(name).empty()) {
      page.usage += runs ? " [COMMAND ...] [OPTIONS]" : " COMMAND ...";
      if (!runs) return page;
    }
    for (const QuestionSetting& setting : own->question.settings()) {
      if (setting.argument()) page.usage += " " + setting.name;
      page.options.push_back(
          {.names = Split(setting.name, ','),
           .argument = setting.argument(),
           .type = setting.type,
           .words = setting.words,
           .offers = setting.offers,
           .help = setting.help.empty() ? HelpOf(name, setting.name) : setting.help});
    }
    if (Below(name).empty()) page.usage += " [OPTIONS]";
    return page;
  }

  std::string Help(const std::string& name) const {
    const CommandPage page = Page(name);
    const Command* const own = Find(name);
    std::string arguments, options, below;
    const std::size_t first = own == nullptr ? 2 : 1;  // below --help and --version
    for (std::size_t i = 0; i < page.options.size(); ++i) {
      const OptionPage& option = page.options[i];
      (option.argument ? arguments : options) +=
          Entry(i < first ? fmt::format("{}", fmt::join(option.names, ","))
                          : ShownName(own->question.settings()[i - first]),
                option.help);
    }
    for (const Command* command : Below(name)) {
      below += Entry(command->name.substr(command->name.rfind(' ') + 1),
                     FirstSentence(TextOf(command->name).about));
    }
    std::string text = report::Reflowed(page.about + "\n") + "\nUsage: " + page.usage + "\n";
    if (!arguments.empty()) text += "\nArguments:\n" + arguments;
    text += "\nOptions:\n" + options;
    if (!below.empty()) text += "\nCommands:\n" + below;
    return text + "\n" + report::Reflowed(page.footer + "\n");
  }
};

Program::Program(std::function<std::string()> version) : parser_(std::make_unique<Parser>()) {
  parser_->version = std::move(version);
}

Program::~Program() = default;

void Program::Add(Command command) { parser_->commands.push_back(std::move(command)); }

Program::Parsed Program::Parse(std::vector<std::string> words) {
  // "help sweep" is "sweep --help".
  if (!words.empty() && words.front() == "help") {
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  if (words.empty()) return {nullptr, {kWrongInput, "", parser_->Help("")}};
  // The command with the longest name that the words begin with.
  const Command* command = nullptr;
  std::size_t used = 0;
  std::string name;
  for (std::size_t i = 0; i < words.size() && !words[i].starts_with('-'); ++i) {
    name += (i == 0 ? "" : " ") + words[i];
    if (const Command* const found = parser_->Find(name)) {
      command = found;
      used = i + 1;
    }
  }
  TypedLine line{.name = command == nullptr ? "" : command->name, .words = std::move(words)};
  const std::vector<const Command*> below = parser_->Below(line.name);
  if (!below.empty() && used < line.words.size() && !line.words[used].starts_with('-')) {
    const std::vector<CommandPage> pages = Pages();
    const std::string& word = line.words[used];
    return {
        nullptr,
        WrongInput({WrongUse(fmt::format("unknown command of {}: {}", line.Title(), Quoted(word)),
                             UnknownCommandHint(word, PageOf(pages, line.name), pages),
                             "command.unknown-command")})};
  }
  if (command != nullptr) {
    for (const QuestionSetting& setting : command->question.settings()) {
      line.given.push_back({.setting = &setting});
    }
  }
  if (const auto wrong = ReadTyped(used, line, [this] { return Pages(); }); !wrong.empty()) {
    return {nullptr, WrongInput(wrong)};
  }
  if (line.help) return {nullptr, {kDone, parser_->Help(line.name), ""}};
  if (line.version) return {nullptr, {kDone, parser_->version(), ""}};
  if (command == nullptr || !command->run) {
    std::vector<std::string> known;
    for (const Command* one : below) known.push_back("stepcast " + one->name);
    return {nullptr, WrongInput({WrongUse(
                         line.Title() + " needs a command",
                         known.size() > 4 ? line.SeeHelp()
                                          : fmt::format("write {}", fmt::join(known, ", or ")))})};
  }
  const CommandPage page = parser_->Page(line.name);
  if (auto wrong = SetVariables(line, page)) return {nullptr, WrongInput({*std::move(wrong)})};
  for (const Diagnostics& wrong : {WrongCombination(line, page), WrongValues(line)}) {
    if (!wrong.empty()) return {nullptr, WrongInput(wrong)};
  }
  return {command, {}};
}

std::vector<CommandPage> Program::Pages() const {
  std::vector<CommandPage> pages = {parser_->Page("")};
  for (const Command& command : parser_->commands) pages.push_back(parser_->Page(command.name));
  return pages;
}

}  // namespace stepcast::cli
