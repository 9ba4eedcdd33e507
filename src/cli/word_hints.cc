#include "src/cli/word_hints.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/diagnostic.h"
#include "src/base/quantity.h"
#include "src/foreign/import.h"
#include "src/report/command_text.h"
#include "src/report/table.h"
#include "src/scenario/scenario_file.h"

namespace stepcast::cli {
namespace {

char Lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

// In small letters, with hyphens for underscores.
std::string Hyphenated(std::string_view text) {
  std::string plain;
  for (const char c : text) plain += c == '_' ? '-' : Lower(c);
  return plain;
}

std::string Plural(const std::string& word) {
  return word.ends_with('y') ? word.substr(0, word.size() - 1) + "ies" : word + "s";
}

const OptionPage* Find(const CommandPage& command, std::string_view name) {
  for (const OptionPage& option : command.options) {
    if (std::find(option.names.begin(), option.names.end(), name) != option.names.end()) {
      return &option;
    }
  }
  return nullptr;
}

std::string Pasted(std::vector<std::string> words) {
  return report::CommandLine({std::move(words), {}});
}

// The option with its value.
std::string Pasted(const OptionPage& option, const std::string& name, std::string value) {
  if (option.type.empty()) return name;
  const bool number = !value.empty() && std::all_of(value.begin(), value.end(),
                                                    [](char c) { return c >= '0' && c <= '9'; });
  if (name == "--gpus" && value.empty()) value = "8 x h100-sxm";
  if (name == "--gpus" && number) value += " x h100-sxm";
  return Pasted({name, value.empty() ? option.type : value});
}

// The settings of a value, which may have another name: "data_parallel.framework=deepspeed" and
// "data_parallel.zero_stage=3" for zero3.
std::vector<std::string> SettingsOf(const std::string& key, const std::string& value) {
  const std::string example(scenario::ExampleOf(key));
  if (!example.empty() && !value.starts_with('{')) return {fmt::format("{}={}", key, example)};
  std::string meant = scenario::ValueMeant(key, value);
  meant.resize(std::min(meant.find('\''), meant.size()));  // the first of several
  if (meant.empty()) return {fmt::format("{}={}", key, value.empty() ? "VALUE" : value)};
  std::vector<std::string> settings;
  std::string_view rest = meant;
  for (std::string own = key; !rest.empty();) {
    const std::size_t end = std::min(rest.find(", "), rest.size());
    const std::string_view part = rest.substr(0, end);
    const std::size_t colon = part.find(": ");
    if (colon != std::string_view::npos) {
      own = fmt::format("{}.{}", key.substr(0, key.find('.')), part.substr(0, colon));
    }
    settings.push_back(
        fmt::format("{}={}", own, colon == std::string_view::npos ? part : part.substr(colon + 2)));
    rest.remove_prefix(std::min(end + 2, rest.size()));
  }
  return settings;
}

// How the command takes a key of the scenario. Empty: it takes none.
std::string PastedSetting(const std::string& key, const std::string& value,
                          const CommandPage& command) {
  for (const OptionPage& option : command.options) {
    const std::string& name = option.names.back();
    if (HelpEntry("settings of options", name) == key) return Pasted(option, name, value);
  }
  if (Find(command, "--set") == nullptr) return "";
  // A search chooses the plan itself, and --vary restricts its choice.
  const bool searches = Find(command, "--fix") != nullptr;
  const bool several = value.find(',') != std::string::npos;
  const bool varies = Find(command, "--vary") != nullptr && (searches || several);
  std::vector<std::string> words;
  for (std::string& setting : SettingsOf(key, value)) {
    words.emplace_back(varies ? "--vary" : "--set");
    words.push_back(std::move(setting));
  }
  return Pasted(std::move(words));
}

std::string SeeHelp(const CommandPage& command) {
  return fmt::format("stepcast{}{} --help lists the {}", command.name.empty() ? "" : " ",
                     command.name, command.name.empty() ? "commands" : "options");
}

// The commands in the page's examples, each on one line.
std::vector<std::string> Examples(const CommandPage& command) {
  std::vector<std::string> examples;
  std::string line;
  bool goes_on = false;
  const std::string start =
      command.name.empty() ? "stepcast " : fmt::format("stepcast {}", command.name);
  for (std::string_view text : report::LinesOf(command.footer)) {
    const bool indented = text.starts_with(' ');
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    if (!goes_on && (!indented || text.find(start) == std::string_view::npos)) continue;
    goes_on = text.ends_with('\\');
    if (goes_on) text.remove_suffix(1);
    while (text.ends_with(' ')) text.remove_suffix(1);
    line += (line.empty() ? "" : " ") + std::string(text);
    if (goes_on) continue;
    examples.push_back(std::move(line));
    line.clear();
  }
  return examples;
}

// The value that an example gives to the option, as it is written there. Empty: none.
std::string ExampleValue(const std::string& option, const CommandPage& command) {
  for (const std::string& example : Examples(command)) {
    const std::size_t at = example.find(fmt::format(" {} ", option));
    if (at == std::string::npos) continue;
    const std::size_t begin = at + option.size() + 2;
    const std::size_t close =
        example.compare(begin, 1, "'") == 0 ? example.find('\'', begin + 1) + 1 : begin;
    return example.substr(begin, std::min(example.find(' ', close), example.size()) - begin);
  }
  return "";
}

std::string UsageHint(const CommandPage& command) {
  return fmt::format("write {}; for an explanation, run stepcast {} --help", command.usage,
                     command.name);
}

// The values in the command line of --gpus and of options with this meaning, such as --gpu.
std::vector<std::string> GpusIn(const std::vector<std::string>& words) {
  std::vector<std::string> values;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::size_t sign = std::min(words[i].find('='), words[i].size());
    std::string name = Hyphenated(words[i].substr(0, sign));
    if (!name.starts_with("--")) continue;
    if (name != "--gpus" && HelpEntry("other options", name.substr(2)) != "--gpus") continue;
    if (sign < words[i].size()) {
      values.push_back(words[i].substr(sign + 1));
    } else if (i + 1 < words.size()) {
      values.push_back(words[++i]);
    }
  }
  return values;
}

// How the command takes the settings that an unknown word may mean: "--set training.precision=fp16"
// for "fp16". Empty if the command does not take settings.
std::string PastedSettings(const std::vector<scenario::SettingMeant>& meant,
                           const std::string& given, const CommandPage& command) {
  std::string text;
  for (const scenario::SettingMeant& one : meant) {
    std::string value = one.ValueFor(given);
    // Elsewhere these two are flags, and the next word is another argument.
    if (one.key == "training.compile" && value != "false") value = "true";
    if (one.key == "training.activation_checkpointing" &&
        (value.empty() || value.find_first_of("./") != std::string::npos)) {
      value = "full";
    }
    const std::string setting = PastedSetting(one.key, value, command);
    if (setting.empty()) return "";
    text += (text.empty() ? "" : ", or ") + setting;
    if (!one.meaning.empty()) text += fmt::format(" ({})", one.meaning);
  }
  return text;
}

// The option of the command whose value the word looks like. Empty: none.
std::string OptionFor(const std::string& word, const CommandPage& command) {
  for (const OptionPage& option : command.options) {
    if (option.argument) continue;
    if (!AllowedWord(word, option.words).empty() || !AllowedWord(word, option.offers).empty()) {
      return option.names.back();
    }
  }
  const OptionPage* const size = Find(command, "--to");
  return size != nullptr && size->type == "BYTES" && ParseBytes(word) ? "--to" : "";
}

}  // namespace

std::string UnknownOptionHint(std::string_view option, std::string_view value,
                              const CommandPage& command, const std::vector<CommandPage>& pages,
                              const std::vector<std::string>& words) {
  std::string word = Hyphenated(option);
  word.erase(0, std::min(word.find_first_not_of('-'), word.size()));
  std::string name = "--" + word;
  if (std::string other = HelpEntry("other options", word); !other.empty()) name = std::move(other);
  std::string given(value);
  if (name == "--gpus") {
    const std::string both = GpusMeant(name, GpusIn(words));
    if (!both.empty() && Find(command, name) != nullptr) return fmt::format("write {}", both);
  }
  if (const OptionPage* own = Find(command, name)) {
    return fmt::format("write {}", Pasted(*own, name, given));
  }
  if (given == "json" && Find(command, "--json") != nullptr) return "write --json";

  if (name == "--gpus" && Find(command, "--set") != nullptr) {
    const auto cluster = foreign::ClusterOfGpus(given);
    if (cluster) return fmt::format("write {}", Pasted({"--set", "cluster=" + *cluster}));
  } else {
    std::vector<scenario::SettingMeant> meant;
    if (const std::string key = HelpEntry("settings of options", name); !key.empty()) {
      meant.push_back({.key = key});
    } else {
      std::string underscores = word;
      std::replace(underscores.begin(), underscores.end(), '-', '_');
      meant = scenario::SettingsMeant(underscores);
    }
    const std::string settings = PastedSettings(meant, given, command);
    if (!settings.empty()) return fmt::format("write {}", settings);
  }

  std::vector<std::string> others;
  for (const CommandPage& other : pages) {
    if (Find(other, name) == nullptr) continue;
    others.push_back(other.name.empty() ? "stepcast" : fmt::format("stepcast {}", other.name));
  }
  std::vector<std::string_view> known;
  for (const OptionPage& own : command.options) {
    for (const std::string& each : own.names) {
      if (each.starts_with("--")) known.emplace_back(each);
    }
  }
  const std::string_view near = NearestWord(name, known);
  if (others.empty() && !near.empty()) return fmt::format("did you mean '{}'?", near);
  if (!others.empty() && command.name.empty()) {
    return fmt::format("write the command first, for example: {} SCENARIO {}", others.front(),
                       name);
  }
  if (!others.empty()) {
    constexpr std::size_t kMost = 3;
    others.resize(std::min(others.size(), kMost));
    return fmt::format("{} is an option of {}", name, fmt::join(others, ", "));
  }
  return SeeHelp(command);
}

std::string UnknownCommandHint(std::string_view word, const CommandPage& group,
                               const std::vector<CommandPage>& pages) {
  const std::string above = group.name.empty() ? "" : group.name + " ";
  std::vector<std::string_view> known;
  for (const CommandPage& page : pages) {
    if (page.name.size() <= above.size() || !page.name.starts_with(above)) continue;
    const std::string_view own = std::string_view(page.name).substr(above.size());
    if (own.find(' ') == std::string_view::npos) known.push_back(own);
  }
  const std::string plain = Hyphenated(word);
  if (group.name.empty()) {
    const std::string other = HelpEntry("other commands", plain);
    if (!other.empty()) return fmt::format("write stepcast {}", other);
  }
  const bool is_known = std::find(known.begin(), known.end(), plain) != known.end();
  const std::string_view near = is_known ? std::string_view(plain) : NearestWord(plain, known);
  if (!near.empty()) return fmt::format("did you mean '{}'?", near);
  if (!group.name.empty()) {
    std::vector<std::string> lines;
    for (const std::string_view own : known) {
      // The word is probably an argument of the first command.
      lines.push_back(fmt::format("stepcast {}{}", above, own) +
                      (lines.empty() ? " " + Pasted({std::string(word)}) : ""));
    }
    return fmt::format("write {}", fmt::join(lines, ", or "));
  }
  // Names of models and files have digits, dots or slashes; commands have none.
  if (word.find_first_of("0123456789./") != std::string_view::npos) {
    return fmt::format("write the command first, for example: {}",
                       Pasted({"stepcast", "simulate", std::string(word)}));
  }
  return SeeHelp(group);
}

std::string GpusMeant(const std::string& option, const std::vector<std::string>& values) {
  const auto is_number = [](const std::string& text) {
    return text.find_first_not_of("0123456789") == std::string::npos;
  };
  if (option != "--gpus" || values.size() != 2 || is_number(values[0]) == is_number(values[1])) {
    return "";
  }
  const bool number_first = is_number(values[0]);
  return Pasted(
      {option, fmt::format("{} x {}", values[number_first ? 0 : 1], values[number_first ? 1 : 0])});
}

std::string MissingHint(const OptionPage& missing, const CommandPage& command,
                        const std::vector<std::string>& words) {
  const std::string& name = missing.names.back();
  const std::vector<std::string> examples = Examples(command);
  if (!missing.argument) {
    const std::string value = ExampleValue(name, command);
    std::vector<std::string> line{"stepcast"};
    line.insert(line.end(), words.begin(), words.end());
    return fmt::format("write {} {} {}", Pasted(std::move(line)), name,
                       value.empty() ? missing.type : value);
  }
  std::string hint = missing.words.empty() ? std::string()
                                           : fmt::format("the value of {} must be one of {}; ",
                                                         name, fmt::join(missing.words, ", "));
  if (examples.empty()) return hint + fmt::format("write {}", command.usage);
  return hint + fmt::format("for example: {}", examples.front());
}

std::string UnexpectedHint(const CommandPage& command, const std::vector<std::string>& words) {
  std::vector<std::string> line{"stepcast"};
  std::size_t arguments = 0, moved = 0;
  const auto count = [&command] {
    return static_cast<std::size_t>(
        std::count_if(command.options.begin(), command.options.end(),
                      [](const OptionPage& option) { return option.argument; }));
  };
  const std::size_t most = count();
  const std::size_t own =
      1 + static_cast<std::size_t>(std::count(command.name.begin(), command.name.end(), ' '));
  std::size_t first = 0;  // where the first argument stands in the line
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (i < own) {
      line.push_back(word);
      first = line.size();
      continue;
    }
    if (word.starts_with('-')) {
      line.push_back(word);
      const OptionPage* const option = Find(command, word);
      if (option != nullptr && !option->type.empty() && i + 1 < words.size()) {
        line.push_back(words[++i]);
      }
      continue;
    }
    const std::string option = OptionFor(word, command);
    std::error_code error;
    if (!option.empty() && !std::filesystem::exists(word, error)) {
      line.insert(line.end(), {option, word});
      ++moved;
      continue;
    }
    if (++arguments > most) return UsageHint(command);
    line.push_back(word);
  }
  if (moved == 0) return UsageHint(command);
  if (arguments == 0 && most > 0) {
    for (const OptionPage& option : command.options) {
      if (!option.argument) continue;
      line.insert(line.begin() + static_cast<std::ptrdiff_t>(first), option.names.back());
      break;
    }
  }
  return fmt::format("write {}", Pasted(std::move(line)));
}

std::string OptionExample(const std::string& option, const CommandPage& command,
                          const std::string& otherwise) {
  const std::string value = ExampleValue(option, command);
  return fmt::format("{} {}", option, value.empty() ? otherwise : value);
}

std::optional<std::string> WholeNumberMeant(std::string_view text) {
  constexpr std::string_view kUnits = "kmg";
  std::int64_t unit = 1;
  if (!text.empty()) {
    const std::size_t power = kUnits.find(Lower(text.back()));
    if (power != std::string_view::npos) {
      for (std::size_t i = 0; i <= power; ++i) unit *= 1024;
      text.remove_suffix(1);
    }
  }
  if (text.ends_with(".0")) text.remove_suffix(2);
  std::int64_t number = 0;
  bool any = false;
  for (const char c : text) {
    if (c == ',' || c == '_' || c == ' ') continue;
    if (c < '0' || c > '9' || number > std::numeric_limits<std::int64_t>::max() / 10 - 10) {
      return std::nullopt;
    }
    number = 10 * number + (c - '0');
    any = true;
  }
  if (!any || __builtin_mul_overflow(number, unit, &number)) return std::nullopt;
  return fmt::format("{}", number);
}

std::string AllowedWord(std::string_view text, const std::vector<std::string>& allowed) {
  for (const std::string& word : allowed) {
    if (word == text) return word;
  }
  const std::string plain = Hyphenated(text);
  for (const std::string& word : allowed) {
    const std::string other = Hyphenated(word);
    if (other == plain || Plural(plain) == other || plain == Plural(other)) return word;
  }
  return "";
}

}  // namespace stepcast::cli
