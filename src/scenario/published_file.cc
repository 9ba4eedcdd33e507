#include "src/scenario/published_file.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "src/scenario/calibration_file.h"

namespace stepcast::scenario {
namespace {

// A piece of a scenario that several cases share.
struct Part {
  YamlTree scenario;  // null: it changes nothing
  std::string stand_in, not_simulated;
};
using Parts = std::map<std::string, Part>;

// The value of a key that must be a mapping, as a tree; null if absent.
YamlTree ReadTree(MappingReader& reader, std::string_view key, Need need,
                  Diagnostics& diagnostics) {
  const std::optional<Node> node = reader.ReadNode(key, need, "a mapping");
  if (!node) return nullptr;
  if (node->kind() == NodeKind::kMapping) return node->tree();
  diagnostics.push_back(
      {"input.wrong-kind", node->location(),
       fmt::format("{} needs a mapping, not {}", Quoted(node->path()), node->Described()),
       "write keys of a scenario and their values"});
  return nullptr;
}

Parts ReadParts(MappingReader& reader, Diagnostics& diagnostics) {
  Parts parts;
  const std::optional<Node> node = reader.ReadNode("parts", Need::kOptional, "a mapping");
  if (!node) return parts;
  if (node->kind() != NodeKind::kMapping) {
    reader.Report("parts", "input.wrong-kind",
                  fmt::format("'parts' needs a mapping, not {}", node->Described()),
                  "write a name for each part: parts: {a100: {scenario: ...}}");
    return parts;
  }
  for (const auto& [name, value] : node->entries()) {
    MappingReader fields(value, diagnostics);
    Part part;
    part.scenario = ReadTree(fields, "scenario", Need::kOptional, diagnostics);
    fields.Optional("stand_in", part.stand_in);
    fields.Optional("not_simulated", part.not_simulated);
    fields.Finish();
    parts.emplace(name, std::move(part));
  }
  return parts;
}

void ReadMemory(MappingReader& reader, PublishedCase& row) {
  for (const MemoryKind kind :
       {MemoryKind::kAllocated, MemoryKind::kReserved, MemoryKind::kDriver}) {
    if (const auto peak = reader.ReadBytes(Name(kind), Need::kOptional, Zero::kRefused)) {
      row.memory.push_back({kind, *peak});
    }
  }
}

void UseParts(MappingReader& reader, const Parts& parts, PublishedCase& row,
              Diagnostics& diagnostics) {
  const auto names = reader.ReadSequence("parts", Need::kOptional);
  if (!names) return;
  for (const Node& item : *names) {
    const std::optional<std::string> name = ReadText(item, diagnostics);
    if (!name) continue;
    const auto found = parts.find(*name);
    if (found == parts.end()) {
      std::vector<std::string_view> known;
      for (const auto& [part, value] : parts) known.push_back(part);
      const std::string_view near = NearestWord(*name, known);
      diagnostics.push_back(
          {"published.unknown-part", item.location(),
           fmt::format("this part is not defined: {}", Quoted(*name)),
           near.empty() ? "add the part under 'parts'" : fmt::format("did you mean '{}'?", near)});
      continue;
    }
    const Part& part = found->second;
    if (part.scenario != nullptr) row.scenario = Merged(row.scenario, part.scenario);
    if (!part.stand_in.empty()) row.stand_ins.push_back(part.stand_in);
    if (row.not_simulated.empty()) row.not_simulated = part.not_simulated;
  }
}

PublishedCase ReadCase(const Node& node, const YamlTree& shared, const Parts& parts,
                       Diagnostics& diagnostics) {
  PublishedCase row;
  row.location = node.location();
  row.scenario = shared;
  MappingReader reader(node, diagnostics);
  reader.Required("name", row.name);
  reader.Required("split", row.split, {Split::kFit, Split::kCheck});
  reader.Required("quality", row.quality, {Quality::kA, Quality::kB});
  reader.Optional("step_time", row.step_time, Zero::kRefused);
  ReadMemory(reader, row);
  reader.Optional("mfu", row.mfu, {0, 1});
  if (!reader.failed() && !row.step_time && row.memory.empty() && !row.mfu) {
    reader.Report("name", "published.nothing-measured",
                  fmt::format("the case {} has no step time and no memory peak", Quoted(row.name)),
                  "add at least one of step_time, allocated, reserved, driver and mfu");
  }
  UseParts(reader, parts, row, diagnostics);
  reader.Optional("not_simulated", row.not_simulated);
  for (const CaseKey& key : kCaseKeys) {
    if (const auto value = reader.ReadNode(key.key, Need::kOptional, "an integer")) {
      const std::string setting = fmt::format("{}.{}", key.section, key.name);
      row.scenario = Merged(row.scenario, UnderKey(setting, value->tree()));
    }
  }
  if (const YamlTree own = ReadTree(reader, "scenario", Need::kOptional, diagnostics)) {
    row.scenario = Merged(row.scenario, own);
  }
  reader.Finish();
  return row;
}

Aims ReadAims(MappingReader& fields) {
  Aims aims;
  constexpr DecimalRange kError = {0, 1};
  fields.Optional("step_time", aims.step_time, kError);
  fields.Optional("memory", aims.memory, kError);
  return aims;
}

}  // namespace

std::optional<PublishedSource> ReadPublished(const Node& node, Diagnostics& diagnostics) {
  MappingReader reader(node, diagnostics);
  PublishedSource source;
  reader.Required("name", source.name);
  reader.Required("source", source.source);
  reader.Required("machine", source.machine);
  reader.Required("rule", source.rule);
  reader.List("notes", Need::kOptional, source.notes, ReadText);
  reader.Optional("never_fitted", source.never_fitted);
  reader.Optional("times", source.predicted, {{"measured", false}, {"predicted", true}});
  MemoryOf memory_of = MemoryOf::kFullestRank;
  reader.Optional("memory_of", memory_of,
                  {{"fullest_rank", MemoryOf::kFullestRank},
                   {"first_stage", MemoryOf::kFirstStage},
                   {"last_stage", MemoryOf::kLastStage}});
  reader.Section("aims", Need::kOptional, source.aims, ReadAims);
  const YamlTree shared = ReadTree(reader, "scenario", Need::kRequired, diagnostics);
  const Parts parts = ReadParts(reader, diagnostics);
  const auto cases = reader.ReadSequence("cases", Need::kRequired);
  reader.Finish();
  if (cases && shared != nullptr) {
    std::set<std::string> names;
    for (const Node& row : *cases) {
      source.cases.push_back(ReadCase(row, shared, parts, diagnostics));
      source.cases.back().memory_of = memory_of;
      const PublishedCase& read = source.cases.back();
      if (read.name.empty() || names.insert(read.name).second) continue;
      diagnostics.push_back({"published.duplicate-name", read.location,
                             fmt::format("another case has this name: {}", Quoted(read.name)),
                             "change one of the two names"});
    }
  }
  if (reader.failed()) return std::nullopt;
  return source;
}

Result<PublishedSource> LoadPublished(const std::string& path) {
  return LoadWith(path, ReadPublished);
}

}  // namespace stepcast::scenario
