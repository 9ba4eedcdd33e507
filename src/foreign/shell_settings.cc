
#include <algorithm>
#include <cctype>
#include <cstddef>
#include <iterator>
#include <utility>

#include "src/foreign/shell.h"

namespace stepcast::foreign {
namespace {

bool IsOption(std::string_view word) {
  if (word.starts_with("--")) return word.size() > 2;
  // `-1` is a number.
  return word.size() > 1 && word[0] == '-' &&
         std::isalpha(static_cast<unsigned char>(word[1])) != 0;
}

// Whether the word is a setting of Hydra or NeMo's command line,
// `model.tensor_model_parallel_size=4`, which may start with plus signs. Assignments to shell
// variables have no dot.
bool IsOverride(std::string_view word) {
  const std::string_view name = word.substr(0, std::min(word.find('='), word.size()));
  if (name.size() == word.size() || name.find('.') == std::string_view::npos) return false;
  return std::all_of(name.begin(), name.end(),
                     [](unsigned char c) {
                       return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '+' || c == '-';
                     }) &&
         name.front() != '-' && name.front() != '.';
}

// Whether the word is a whole command, as in `bash -c "..."` and `eval "..."`.
bool IsCommandLine(const ShellText& word) {
  const std::string text = word.Text();
  return text.find(" --") != std::string::npos || text.find("\n--") != std::string::npos ||
         (text.starts_with("--") && text.find(' ') != std::string::npos);
}

// Splits such a word.
void SplitInto(const ShellText& text, std::vector<ShellText>& words) {
  ShellText word;
  for (const ShellPiece& piece : text.pieces) {
    ShellPiece part = piece;
    part.text.clear();
    for (const char c : piece.text) {
      if (std::isspace(static_cast<unsigned char>(c)) == 0) {
        part.text += c;
        continue;
      }
      if (!part.text.empty()) word.pieces.push_back(part);
      part.text.clear();
      if (!word.pieces.empty()) words.push_back(std::exchange(word, {}));
    }
    if (!part.text.empty() || !part.unknown.empty()) word.pieces.push_back(part);
  }
  if (!word.pieces.empty()) words.push_back(std::move(word));
}

std::vector<ShellText> Flat(const std::vector<ShellText>& words) {
  std::vector<ShellText> flat;
  for (const ShellText& word : words) {
    if (IsCommandLine(word)) {
      SplitInto(word, flat);
    } else {
      flat.push_back(word);
    }
  }
  return flat;
}

Location PlaceOf(const ShellText& word, const std::string& file) {
  for (const ShellPiece& piece : word.pieces) {
    if (!piece.given.empty()) return {"--variable " + piece.given, 0, 0};
    if (piece.line > 0) return {file, piece.line, piece.column};
  }
  return {file, 0, 0};
}

class CommandReader {
 public:
  CommandReader(const std::string& file, ShellDocuments& result) : file_(file), result_(result) {}

  void Read(const std::vector<ShellText>& words) {
    const std::size_t program = ProgramIn(words);
    std::string prefix = program < words.size() ? "launcher." : "";
    for (std::size_t at = 0; at < words.size();) {
      if (at == program) prefix.clear();
      const std::string word = words[at].Text();
      if (IsOption(word)) {
        at = ReadOption(words, at, prefix);
        continue;
      }
      if (prefix.empty() && IsOverride(word)) {
        ReadOverride(words[at++]);
        continue;
      }
      if (IsOpen(words[at]) && prefix.empty()) {
        result_.open.emplace_back(words[at].Unknown().front(), PlaceOf(words[at], file_));
      }
      ++at;
    }
  }

 private:
  // The index of the Python file or module that is started, or the number of words if there is
  // none.
  static std::size_t ProgramIn(const std::vector<ShellText>& words) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (words[i].Text().ends_with(".py")) return i;
    }
    for (std::size_t i = 0; i + 1 < words.size(); ++i) {
      if (words[i].Text() == "-m" &&
          words[i + 1].Text().find("torch.distributed") == std::string::npos) {
        return i + 1;
      }
    }
    // An unknown path after the launcher's options.
    const auto launcher = std::find_if(words.begin(), words.end(), [](const ShellText& word) {
      return word.Text() == "torchrun" || word.Text().ends_with("/torchrun");
    });
    const auto program = std::find_if(launcher, words.end(), IsOpen);
    return static_cast<std::size_t>(program - words.begin());
  }

  void ReadOverride(const ShellText& word) {
    const std::string text = word.Text();
    const std::size_t sign = text.find('=');
    Setting setting{text.substr(0, sign), Value::Text(text.substr(sign + 1)), PlaceOf(word, file_)};
    setting.name.erase(0, setting.name.find_first_not_of('+'));
    setting.value.unknown = word.Unknown();
    result_.command.settings.push_back(std::move(setting));
  }

  std::size_t ReadOption(const std::vector<ShellText>& words, std::size_t at,
                         const std::string& prefix) {
    std::string name = words[at].Text();
    name.erase(0, name.find_first_not_of('-'));
    Setting setting{"", {}, PlaceOf(words[at], file_)};
    const std::size_t sign = name.find('=');
    std::vector<ShellText> values;
    if (sign != std::string::npos) {
      ShellText value = words[at];
      std::size_t left = words[at].Text().find('=') + 1;
      for (ShellPiece& piece : value.pieces) {
        const std::size_t cut = std::min(left, piece.text.size());
        piece.text.erase(0, cut);
        left -= cut;
      }
      values.push_back(std::move(value));
      name.resize(sign);
    }
    ++at;
    while (sign == std::string::npos && at < words.size() && !IsOption(words[at].Text()) &&
           !IsSign(words[at].Text()) && !EndsOptions(words[at].Text(), prefix) &&
           !(prefix.empty() && IsOverride(words[at].Text())) &&
           (values.empty() || !IsOpen(words[at]))) {
      values.push_back(words[at++]);
    }
    setting.name = prefix + name;
    if (values.empty()) {
      setting.value = Value::Text("true");
    } else {
      if (values.size() == 1 || values.front().Unknown().empty()) {
        setting.location = PlaceOf(values.front(), file_);
      }
      std::vector<std::string> texts;
      for (const ShellText& value : values) {
        for (const std::string& unknown : value.Unknown()) setting.value.unknown.push_back(unknown);
        if (!value.Text().empty() || values.size() == 1) texts.push_back(value.Text());
      }
      if (texts.size() == 1) {
        setting.value.kind = Value::Kind::kText;
        setting.value.text = texts.front();
      } else {
        setting.value.kind = Value::Kind::kList;
        setting.value.items = std::move(texts);
      }
    }
    result_.command.settings.push_back(std::move(setting));
    return at;
  }

  // Whether the word is unknown and may contain options.
  static bool IsOpen(const ShellText& word) {
    return word.Text().empty() && !word.Unknown().empty();
  }
  static bool IsSign(std::string_view word) {
    return word.starts_with('>') || word.starts_with("2>") || word.starts_with("&>") ||
           word == "<" || word == ")";
  }
  // The program comes after the launcher's options.
  static bool EndsOptions(std::string_view word, std::string_view prefix) {
    return !prefix.empty() && (word.ends_with(".py") || word == "-m" || word == "torchrun" ||
                               word == "python" || word == "python3" || word == "bash");
  }

  const std::string& file_;
  ShellDocuments& result_;
};

// Adds a script that is run as a command, alone or after `bash`, `sbatch` and the like.
void AddScript(const std::vector<ShellText>& words, std::vector<std::string>& scripts) {
  for (const ShellText& word : words) {
    const std::string text = word.Text();
    if (IsOption(text)) return;
    if (!word.Unknown().empty() || !(text.ends_with(".sh") || text.ends_with(".slurm"))) continue;
    if (std::find(scripts.begin(), scripts.end(), text) == scripts.end()) scripts.push_back(text);
    return;
  }
}

std::size_t OptionsIn(const std::vector<ShellText>& words) {
  return static_cast<std::size_t>(std::count_if(
      words.begin(), words.end(),
      [](const ShellText& word) { return IsOption(word.Text()) || IsOverride(word.Text()); }));
}

}  // namespace

ShellDocuments ParseShellSettings(std::string_view text, const std::string& file,
                                  const std::map<std::string, std::string>& given) {
  std::string script(text);
  const std::size_t begin = script.find_first_not_of(" \t\r\n");
  // Arguments without a command, one or more per line.
  if (begin != std::string::npos && script.compare(begin, 2, "--") == 0) {
    std::replace(script.begin(), script.end(), '\n', ' ');
    script = "";
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      for (const char c : text.substr(at, end - at)) {
        // No shell reads this text, so brackets belong to values.
        if (c == '(' || c == ')' || c == '*' || c == '|' || c == ';' || c == '&') script += '\\';
        script += c;
      }
      script += " \\\n";
      at = end + 1;
    }
  }
  ShellDocuments result{.command = {.file = file}};
  const ShellScript read = ReadShell(script);
  const ShellOutcome outcome = FollowShell(read, given);
  for (const auto& [name, value] : outcome.exported) {
    Setting setting{"env." + name, Value::Text(value.Text()), PlaceOf(value, file)};
    setting.value.unknown = value.Unknown();
    result.command.settings.push_back(std::move(setting));
  }
  ShellInvocation batch;
  for (const ShellWord& word : read.batch_options) {
    batch.words.push_back({{{.text = word.raw, .line = word.line, .column = word.column}}});
  }
  std::vector<ShellText> best;
  bool best_certain = false;
  for (const ShellInvocation& invocation : outcome.invocations) {
    for (const HereDocument& document : invocation.documents) {
      result.embedded.emplace_back(document.text, document.line);
    }
    std::vector<ShellText> words = Flat(invocation.words);
    AddScript(words, result.scripts);
    const std::size_t options = OptionsIn(words);
    if (options == 0 || (best_certain && !invocation.certain)) continue;
    const bool better = options > OptionsIn(best) || (invocation.certain && !best_certain);
    if (!better) continue;
    best = std::move(words);
    best_certain = invocation.certain;
  }
  CommandReader(file, result).Read(best);
  ShellDocuments head{.command = {.file = file}};
  CommandReader(file, head).Read(batch.words);
  for (Setting& setting : head.command.settings) {
    setting.name = "sbatch." + setting.name;
    result.command.settings.push_back(std::move(setting));
  }
  for (const auto& [name, words] : outcome.compared) {
    result.compared[name].assign(words.begin(), words.end());
  }
  result.unfollowed = outcome.unfollowed;
  for (Setting& setting : result.command.settings) {
    for (const std::string& name : setting.value.unknown) {
      const auto compared = outcome.compared.find(name);
      if (compared == outcome.compared.end()) continue;
      setting.value.known_words.assign(compared->second.begin(), compared->second.end());
    }
  }
  return result;
}

Document Spelled(Document document, char separator) {
  for (Setting& setting : document.settings) {
    if (setting.name.starts_with("env.")) continue;
    std::replace(setting.name.begin(), setting.name.end(), separator == '-' ? '_' : '-', separator);
  }
  return document;
}

}  // namespace stepcast::foreign
