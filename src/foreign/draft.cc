#include "src/foreign/draft.h"

#include <cstddef>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/printable.h"
#include "src/base/text_lines.h"
#include "src/foreign/setting.h"

namespace stepcast::foreign {
namespace {

// Whether `key` equals `above` or is below it.
bool IsWithin(std::string_view key, std::string_view above) {
  return key.starts_with(above) && (key.size() == above.size() || key[above.size()] == '.');
}

}  // namespace

void Draft::State(std::string_view key, ScenarioValue value, const Location& location,
                  std::string remark) {
  if (Overridden(key)) return;
  const auto known = std::find_if(entries_.begin(), entries_.end(),
                                  [key](const Entry& entry) { return entry.key == key; });
  std::string origin = Origin(location);
  if (!remark.empty()) origin += ", " + remark;
  Entry entry{std::string(key), std::move(value), std::move(origin), location};
  if (known == entries_.end()) {
    entries_.push_back(std::move(entry));
    return;
  }
  if (known->location.file.empty()) {
    *known = std::move(entry);
    return;
  }
  if (known->value == entry.value) return;
  Report({"foreign.conflict", location,
          fmt::format("the value of {} is {} in this file, but {} in {}", Quoted(key),
                      entry.value.text, known->value.text, known->origin),
          fmt::format("to choose one of the two values, add --set {}={}", key, entry.value.text)});
}

void Draft::Assume(std::string_view key, ScenarioValue value, std::string origin) {
  if (Find(key) != nullptr || Overridden(key)) return;
  entries_.push_back({std::string(key), std::move(value), std::move(origin), Location{}});
}

void Draft::Override(std::string_view key, ScenarioValue value, const std::string& option) {
  const Entry* const other = Find(key);
  if (other != nullptr && other->location.file.starts_with("--") && !(other->value == value)) {
    Note(fmt::format("{} replaces {}", option, other->location.file));
  }
  TakeOut(key);
  entries_.push_back({std::string(key), std::move(value), option.substr(0, option.find(' ')),
                      Location{option, 0, 0}});
}

void Draft::TakeOut(std::string_view key) {
  Remove(key);
  overridden_.emplace_back(key);
}

void Draft::Report(Diagnostic mistake) {
  mistake.message = Printable(mistake.message);
  mistake.hint = Printable(mistake.hint);
  mistakes_.push_back(std::move(mistake));
}

void Draft::Omit(Location location, std::string option, std::string consequence) {
  omissions_.push_back({std::move(location), Printable(option), std::move(consequence)});
}

void Draft::Note(std::string_view sentence) { notes_.push_back(Printable(sentence)); }

void Draft::AskForVariable(const std::string& name, const std::string& subject,
                           const Location& location, const std::vector<std::string>& words) {
  if (std::find(asked_.begin(), asked_.end(), name) != asked_.end()) return;
  asked_.push_back(name);
  const bool argument = name.find_first_not_of("0123456789") == std::string::npos;
  std::string hint = fmt::format("to set the variable, add --variable {}={}", name,
                                 words.empty() ? "VALUE" : words.front());
  const auto set_by = set_by_.find(name);
  const bool by_loop = set_by != set_by_.end() && set_by->second == "a loop";
  if (words.size() > 1) {
    hint += fmt::format("; the script {} {}",
                        by_loop ? "sets the variable to" : "compares the variable with",
                        fmt::join(words, ", "));
  }
  const std::string what =
      argument ? fmt::format("argument {} of the script", name)
      : set_by != set_by_.end()
          ? fmt::format(
                "a variable whose value is unknown, because {} in the script sets the variable: {}",
                set_by->second, Quoted(name))
          : fmt::format("a variable that is not set in the file: {}", Quoted(name));
  Report({"foreign.missing", location, fmt::format("{} depends on {}", subject, what),
          std::move(hint)});
}

const Entry* Draft::Find(std::string_view key) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [key](const Entry& entry) { return entry.key == key; });
  return found == entries_.end() ? nullptr : &*found;
}

bool Draft::Has(std::string_view key) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [key](const Entry& entry) { return IsWithin(entry.key, key); });
}

bool Draft::Covers(std::string_view key) const {
  return Has(key) || std::any_of(entries_.begin(), entries_.end(),
                                 [key](const Entry& entry) { return IsWithin(key, entry.key); });
}

std::optional<std::int64_t> Draft::Integer(std::string_view key) const {
  const Entry* entry = Find(key);
  return entry == nullptr ? std::nullopt : Value::Text(entry->value.text).Integer();
}

void Draft::Remove(std::string_view key) {
  std::erase_if(entries_, [key](const Entry& entry) { return IsWithin(entry.key, key); });
}

bool Draft::Overridden(std::string_view key) const {
  return std::any_of(overridden_.begin(), overridden_.end(),
                     [key](const std::string& above) { return IsWithin(key, above); });
}

namespace {

// The order of keys for a human reader; other keys follow in the order in which they were found.
constexpr std::string_view kOrder[] = {
    "name",
    "model.kind",
    "model.name",
    "model.family",
    "model",
    "cluster.topology",
    "cluster.nodes",
    "cluster.devices",
    "calibration",
    "software",
    "communication",
    "training.sequence_length",
    "training.lengths",
    "training.micro_batch_size",
    "training.gradient_accumulation",
    "training.global_batch_size",
    "training.precision",
    "training.fp8_scaling",
    "training.parameter_dtype",
    "training.gradient_dtype",
    "training.reduce_dtype",
    "training.optimizer",
    "training.optimizer_implementation",
    "training.activation_checkpointing",
    "training",
    "parallelism.data",
    "parallelism.tensor",
    "parallelism.sequence_parallel",
    "parallelism.pipeline",
    "parallelism.context",
    "parallelism",
    "experts",
    "data_parallel.framework",
    "data_parallel.zero_stage",
    "data_parallel",
    "data_parallel.deepspeed",
};

std::size_t PlaceOf(std::string_view key) {
  std::size_t place = std::size(kOrder);
  std::size_t longest = 0;
  for (std::size_t i = 0; i < std::size(kOrder); ++i) {
    const std::string_view above = kOrder[i];
    const bool within =
        key.starts_with(above) && (key.size() == above.size() || key[above.size()] == '.');
    if (within && above.size() >= longest) {
      longest = above.size();
      place = i;
    }
  }
  return place;
}

class Writer {
 public:
  void Line(std::string line, Location origin = {}) {
    result_.text += line + "\n";
    result_.origins.push_back(std::move(origin));
  }
  // Writes a key at its depth, after the mappings above it that are not open yet.
  void Put(const Entry& entry) {
    std::vector<std::string> parts;
    std::size_t begin = 0;
    for (std::size_t dot; (dot = entry.key.find('.', begin)) != std::string::npos;
         begin = dot + 1) {
      parts.push_back(entry.key.substr(begin, dot - begin));
    }
    std::size_t same = 0;
    while (same < parts.size() && same < open_.size() && parts[same] == open_[same]) ++same;
    for (std::size_t depth = same; depth < parts.size(); ++depth) {
      Line(fmt::format("{:{}}{}:", "", 2 * depth, YamlScalar(parts[depth])));
    }
    open_ = parts;
    const ScenarioValue& value = entry.value;
    constexpr std::size_t kComments = 44;  // the column where comments begin
    const std::string text =
        fmt::format("{:{}}{}: {}", "", 2 * parts.size(), YamlScalar(entry.key.substr(begin)),
                    value.is_yaml ? value.text : YamlScalar(value.text));
    Line(fmt::format("{:<{}}  # {}", text, kComments, Printable(entry.origin)), entry.location);
  }
  ScenarioText Take() { return std::move(result_); }

 private:
  ScenarioText result_;
  std::vector<std::string> open_;
};

}  // namespace

std::string OmissionText(const Draft& draft, const std::string& prefix) {
  std::string modelled, unknown;
  for (const Omission& omission : draft.omissions()) {
    std::string line =
        fmt::format("{}  {} {}", prefix, Printable(Origin(omission.location)), omission.option);
    if (omission.consequence.empty()) {
      unknown += line + "\n";
    } else {
      modelled += fmt::format("{}\n{}      {}\n", line, prefix, omission.consequence);
    }
  }
  std::string text;
  if (!modelled.empty()) {
    text += fmt::format(
        "{}Settings that stepcast does not model, each with the assumption of the forecast:\n"
        "{}",
        prefix, modelled);
  }
  if (!unknown.empty()) {
    text += fmt::format(
        "{0}Settings that stepcast does not know. The forecast does not include their effects on "
        "the\n"
        "{0}time and the memory of the step:\n"
        "{1}",
        prefix, unknown);
  }
  return text;
}

ScenarioText WriteScenario(const Draft& draft, const std::string& title) {
  std::vector<Entry> entries = draft.entries();
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return PlaceOf(a.key) < PlaceOf(b.key); });
  Writer writer;
  writer.Line("# " + Printable(title));
  writer.Line("# The comment after each value states the source of the value.");
  writer.Line("stepcast: 1");
  for (const Entry& entry : entries) writer.Put(entry);
  std::string omitted = OmissionText(draft, "# ");
  if (!omitted.empty()) writer.Line("");
  for (std::size_t begin = 0; begin < omitted.size();) {
    const std::size_t end = omitted.find('\n', begin);
    writer.Line(omitted.substr(begin, end - begin));
    begin = end + 1;
  }
  return writer.Take();
}

Diagnostics AtOrigins(Diagnostics mistakes, const std::string& file, const ScenarioText& text) {
  for (Diagnostic& mistake : mistakes) {
    Location& at = mistake.location;
    const auto line = static_cast<std::size_t>(at.line);
    if (at.file != file || line == 0 || line > text.origins.size()) continue;
    const Location& origin = text.origins[line - 1];
    if (!origin.file.empty()) at = origin;
  }
  return mistakes;
}

}  // namespace stepcast::foreign
