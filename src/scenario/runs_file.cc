#include "src/scenario/runs_file.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/files.h"
#include "src/base/printable.h"
#include "src/formats/csv_table.h"
#include "src/scenario/calibration_file.h"
#include "src/scenario/data_root.h"
#include "src/scenario/document.h"
#include "src/scenario/overrides.h"

namespace stepcast::scenario {
namespace {

using formats::CsvCell;
using formats::CsvTable;

constexpr std::string_view kOwnColumns[] = {"name",      "split",       "scenario",
                                            "step_time", "step_time_s", "tokens_per_s_per_gpu",
                                            "allocated", "reserved",    "driver"};
// Limit of runs. Each is forecast, and a profile learns from at most a tenth as many.
constexpr std::size_t kMostRuns = 10'000;
// A run has one of these columns.
constexpr const char* kTimeColumns[] = {"step_time", "step_time_s", "tokens_per_s_per_gpu"};
// The sections of a scenario that settings may be in.
constexpr std::string_view kSections[] = {"model",    "cluster",       "calibration",
                                          "software", "training",      "parallelism",
                                          "experts",  "data_parallel", "communication"};

// "training.micro_batch_size" for "micro_batch_size"; a key with a section is unchanged.
std::string SettingOf(std::string_view column) {
  for (const CaseKey& key : kCaseKeys) {
    if (column == key.key) return fmt::format("{}.{}", key.section, key.name);
  }
  return std::string(column);
}

bool IsSetting(std::string_view column) {
  const std::string setting = SettingOf(column);
  const std::string_view section = std::string_view(setting).substr(0, setting.find('.'));
  return std::find(std::begin(kSections), std::end(kSections), section) != std::end(kSections);
}

class Reader {
 public:
  Reader(const CsvTable& table, const std::string& path, const std::string& scenario,
         const std::vector<std::string>& set)
      : table_(table), path_(path), scenario_(scenario), set_(set) {}

  RunsTable Run() {
    CheckColumns();
    if (table_.rows.empty()) {
      Add("runs.none", {path_, 0, 0}, "the table has no runs", "add one line for each run");
    }
    if (table_.rows.size() > kMostRuns) {
      Add("runs.too-many", table_.rows[kMostRuns].front().location,
          fmt::format("a table can have at most {} runs, not {}", kMostRuns, table_.rows.size()),
          "remove the runs that differ most from the runs that you want to forecast");
    }
    for (const std::vector<CsvCell>& row : table_.rows) {
      if (table_.rows.size() > kMostRuns || faults_.size() >= kMostShownFaults) break;
      ReadRun(row);
    }
    runs_.mistakes = std::move(faults_);
    return std::move(runs_);
  }

 private:
  void Add(const char* code, Location location, std::string message, std::string hint) {
    faults_.push_back({code, std::move(location), std::move(message), std::move(hint)});
  }

  void CheckColumns() {
    std::vector<std::string_view> known(std::begin(kOwnColumns), std::end(kOwnColumns));
    for (const CaseKey& key : kCaseKeys) known.push_back(key.key);
    for (const CsvCell& heading : table_.headings) {
      const bool own = std::find(std::begin(kOwnColumns), std::end(kOwnColumns), heading.text) !=
                       std::end(kOwnColumns);
      if (own || IsSetting(heading.text)) continue;
      const std::string_view near = NearestWord(heading.text, known);
      Add("runs.unknown-column", heading.location,
          fmt::format("this column is neither a measurement nor a setting: {}",
                      Quoted(heading.text)),
          near.empty()
              ? fmt::format(
                    "use the columns {}, and keys of a scenario such as training.sequence_length",
                    fmt::join(known, ", "))
              : fmt::format("did you mean '{}'?", near));
    }
  }

  const CsvCell* Find(const std::vector<CsvCell>& row, std::string_view column) const {
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (table_.headings[i].text == column) return row[i].text.empty() ? nullptr : &row[i];
    }
    return nullptr;
  }

  // A field as a YAML value with its position.
  std::optional<Node> ValueOf(const CsvCell& cell, std::string_view column) {
    std::optional<YamlTree> tree = ParseYaml(cell.text, cell.location.file, faults_, false);
    if (!tree || *tree == nullptr) return std::nullopt;
    return Node(Placed(*tree, cell.location), std::string(column));
  }

  static YamlTree Placed(const YamlTree& tree, const Location& location) {
    auto node = std::make_shared<YamlNode>(*tree);
    node->position = {std::make_shared<const std::string>(location.file), location.line,
                      location.column};
    for (auto& item : node->items) item = Placed(item, location);
    for (auto& entry : node->entries) {
      entry.position = node->position;
      entry.value = Placed(entry.value, location);
    }
    return node;
  }

  // A scenario file, which is read once.
  YamlTree ScenarioAt(const std::string& path, const Location& location, std::string& file) {
    const auto known = scenarios_.find(path);
    if (known != scenarios_.end()) {
      file = known->second.first;
      return known->second.second;
    }
    const std::optional<std::string> found = FindInput(path, FolderOf(path_));
    YamlTree tree;
    if (!found && !FindInput(path, "")) {
      Add("file.not-found", location,
          fmt::format("'scenario' refers to a file that does not exist: {}", Quoted(path)),
          PlacesTried(path, FolderOf(path_)));
    } else {
      file = found ? *found : *FindInput(path, "");
      if (const std::optional<Node> node = ReadDocument(file, faults_)) tree = node->tree();
    }
    scenarios_[path] = {file, tree};
    return tree;
  }

  // Lays the field's setting over the run's scenario, if possible.
  void Set(const CsvCell& cell, const std::string& column, PublishedCase& run) {
    const std::optional<Node> value = ValueOf(cell, column);
    if (!value) return;
    run.scenario = Merged(run.scenario, UnderKey(SettingOf(column), value->tree()));
  }

  void ReadMeasurements(const std::vector<CsvCell>& row, PublishedCase& run) {
    constexpr double kMost = 1e15;
    const CsvCell* first = nullptr;
    for (const char* column : kTimeColumns) {
      const CsvCell* cell = Find(row, column);
      if (cell == nullptr) continue;
      if (first != nullptr) {
        Add("runs.measured-twice", cell->location,
            fmt::format("the run has two times: {} and {}", Quoted(first->text),
                        Quoted(cell->text)),
            "keep only one of step_time, step_time_s and tokens_per_s_per_gpu");
      } else {
        first = cell;
      }
    }
    if (const CsvCell* cell = Find(row, "step_time")) {
      if (const auto value = ValueOf(*cell, "step_time")) {
        run.step_time = ReadTime(*value, Zero::kRefused, faults_);
      }
    } else if (const CsvCell* seconds = Find(row, "step_time_s")) {
      if (const auto value = ValueOf(*seconds, "step_time_s")) {
        constexpr double kLongest = 86'400, kPicoseconds = 1e12;
        if (const auto number = ReadDecimal(*value, {1e-9, kLongest}, faults_)) {
          run.step_time = Picoseconds(static_cast<std::int64_t>(*number * kPicoseconds));
        }
      }
    } else if (const CsvCell* rate = Find(row, "tokens_per_s_per_gpu")) {
      if (const auto value = ValueOf(*rate, "tokens_per_s_per_gpu")) {
        run.tokens_per_second_per_gpu = ReadDecimal(*value, {1e-6, kMost}, faults_);
      }
    } else {
      Add("runs.not-measured", row.front().location, "the run has no step time",
          "add step_time (with a unit), step_time_s or tokens_per_s_per_gpu");
    }
    for (const MemoryKind kind :
         {MemoryKind::kAllocated, MemoryKind::kReserved, MemoryKind::kDriver}) {
      const CsvCell* cell = Find(row, Name(kind));
      if (cell == nullptr) continue;
      const auto value = ValueOf(*cell, Name(kind));
      if (!value) continue;
      if (const auto peak = ReadBytes(*value, Zero::kRefused, faults_)) {
        run.memory.push_back({kind, *peak});
      }
    }
  }

  void ReadRun(const std::vector<CsvCell>& row) {
    PublishedCase run;
    run.location = row.front().location;
    const CsvCell* name = Find(row, "name");
    run.name = name != nullptr ? name->text : fmt::format("line {}", run.location.line);
    run.split = Split::kFit;
    if (const CsvCell* split = Find(row, "split")) {
      if (const auto value = ValueOf(*split, "split")) {
        run.split =
            ReadWord<Split>(*value, {{"fit", Split::kFit}, {"check", Split::kCheck}}, faults_)
                .value_or(Split::kFit);
      }
    }
    run.quality = Quality::kA;
    ReadMeasurements(row, run);
    const CsvCell* own = Find(row, "scenario");
    std::string file = path_;
    if (own != nullptr) {
      run.scenario = ScenarioAt(own->text, own->location, file);
    } else if (!scenario_.empty()) {
      run.scenario = ScenarioAt(scenario_, {"--scenario " + scenario_, 0, 0}, file);
    } else if (std::none_of(table_.headings.begin(), table_.headings.end(),
                            [](const CsvCell& heading) { return heading.text == "model"; })) {
      Add("runs.no-scenario", run.location, "there is no scenario for this run",
          "add a column 'scenario', or give one scenario for all runs: --scenario PATH");
      return;
    } else {
      auto empty = std::make_shared<YamlNode>();
      empty->kind = NodeKind::kMapping;
      empty->position = {std::make_shared<const std::string>(path_), run.location.line, 1};
      run.scenario = std::move(empty);
    }
    if (run.scenario == nullptr) return;
    for (const std::string& option : set_) {
      auto changed = WithOverride(run.scenario, option, faults_);
      if (!changed) return;
      run.scenario = *std::move(changed);
    }
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (row[i].text.empty() || !IsSetting(table_.headings[i].text)) continue;
      Set(row[i], table_.headings[i].text, run);
    }
    runs_.runs.push_back(std::move(run));
    runs_.files.push_back(std::move(file));
  }

  const CsvTable& table_;
  const std::string& path_;
  const std::string& scenario_;
  const std::vector<std::string>& set_;
  std::map<std::string, std::pair<std::string, YamlTree>> scenarios_;
  RunsTable runs_;
  Diagnostics faults_;
};

}  // namespace

Result<RunsTable> LoadRunsTable(const std::string& path, const std::string& scenario,
                                const std::vector<std::string>& set) {
  Diagnostics diagnostics;
  const std::optional<std::string> text = ReadTextFile(path, diagnostics);
  if (!text) return tl::make_unexpected(std::move(diagnostics));
  const Result<CsvTable> table = formats::ParseCsv(*text, path);
  if (!table) return tl::make_unexpected(table.error());
  return Reader(*table, path, scenario, set).Run();
}

}  // namespace stepcast::scenario
