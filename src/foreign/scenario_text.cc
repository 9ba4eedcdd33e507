#include <algorithm>
#include <cstddef>
#include <map>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "src/base/printable.h"
#include "src/base/text_lines.h"
#include "src/foreign/draft.h"
#include "src/foreign/setting.h"

namespace stepcast::foreign {
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
        "{}Not modelled. Below each setting is what the forecast assumes instead:\n"
        "{}",
        prefix, modelled);
  }
  if (!unknown.empty()) {
    text += fmt::format(
        "{0}Not known to stepcast, and left out. If one of them changes a step's time or its\n"
        "{0}memory, the forecast does not show it:\n{1}",
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
  writer.Line("# The comment after each value names its source.");
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
