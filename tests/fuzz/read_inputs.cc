#include "tests/fuzz/read_inputs.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "fmt/format.h"
#include "src/base/bytes.h"
#include "src/base/check.h"
#include "src/base/diagnostic.h"
#include "src/calibrate/session.h"
#include "src/foreign/import.h"
#include "src/formats/imported_topology.h"
#include "src/formats/kineto.h"
#include "src/formats/measured_memory.h"
#include "src/formats/nccl_tests.h"
#include "src/formats/question.h"
#include "src/formats/schedule_csv.h"
#include "src/formats/trace_text.h"
#include "src/planner/result_store.h"
#include "src/report/answers.h"
#include "src/report/dumps.h"
#include "src/scenario/calibration_file.h"
#include "src/scenario/curve_file.h"
#include "src/scenario/document.h"
#include "src/scenario/gpu_file.h"
#include "src/scenario/load.h"
#include "src/scenario/model_file.h"
#include "src/scenario/published_file.h"
#include "src/scenario/resolved_scenario.h"
#include "src/scenario/runs_file.h"
#include "src/scenario/topology_file.h"
#include "src/study/plan_question.h"

namespace stepcast::fuzz {
namespace {

using scenario::Node;

// Checks that every mistake has a message and a location, and prints on separate lines.
void CheckMistakes(const Diagnostics& mistakes) {
  for (const Diagnostic& mistake : mistakes) {
    STEPCAST_CHECK(
        !mistake.code.empty() && !mistake.message.empty() && !mistake.location.file.empty(),
        "a diagnostic is complete");
    STEPCAST_CHECK(mistake.message.find('\n') == std::string::npos &&
                       mistake.hint.find('\n') == std::string::npos,
                   "a diagnostic's sentences stay on one line");
  }
  STEPCAST_CHECK(mistakes.empty() == Format(mistakes).empty(), "mistakes are printed");
}

// Reads `text` as one document and passes it to `read`, which returns an optional.
template <typename Read>
auto ReadDocumentWith(std::string_view text, Read read)
    -> decltype(read(std::declval<const Node&>(), std::declval<Diagnostics&>())) {
  Diagnostics mistakes;
  const std::optional<Node> root = scenario::ParseDocument(text, "fuzz.yaml", mistakes);
  STEPCAST_CHECK(root.has_value() || !mistakes.empty(), "text without a tree has a mistake");
  if (!root.has_value()) {
    CheckMistakes(mistakes);
    return std::nullopt;
  }
  auto value = read(*root, mistakes);
  STEPCAST_CHECK(value.has_value() || !mistakes.empty(), "what cannot be used has a mistake");
  CheckMistakes(mistakes);
  return value;
}

std::vector<std::string> Overrides(std::string_view text) {
  constexpr std::string_view kMark = "#--set ";
  std::vector<std::string> options;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    if (line.substr(0, kMark.size()) == kMark) options.emplace_back(line.substr(kMark.size()));
    begin = end + 1;
  }
  return options;
}

}  // namespace

void ReadScenario(std::string_view text) {
  // Shipped models and clusters take milliseconds to build, so they are cached. The cache is
  // cleared from time to time, because it also keeps every new inline mapping.
  static std::unique_ptr<scenario::InputCache> cache;
  static int uses = 0;
  if (cache == nullptr || ++uses % 1000 == 0) cache = std::make_unique<scenario::InputCache>();

  const auto first = scenario::LoadText(text, "fuzz.yaml", Overrides(text), *cache);
  if (!first.has_value()) {
    STEPCAST_CHECK(!first.error().empty(), "what cannot be loaded has a mistake");
    CheckMistakes(first.error());
    return;
  }
  const std::string resolved = scenario::ToJson(first->resolved);
  const auto second = scenario::LoadText(resolved, "fuzz.yaml", {}, *cache);
  if (!second.has_value()) {
    std::fprintf(stderr, "%s\n%s", resolved.c_str(), Format(second.error()).c_str());
  }
  STEPCAST_CHECK(second.has_value(), "what was resolved loads");
  STEPCAST_CHECK(scenario::ToJson(second->resolved) == resolved, "it resolves to itself");
}

void ReadModel(std::string_view text) {
  ReadDocumentWith(text, [](const Node& node, Diagnostics& mistakes) {
    return scenario::ReadModel(node, mistakes);
  });
}

void ReadConfig(std::string_view text) {
  const auto config = scenario::ParseConfig(text, "config.json");
  if (!config.has_value()) {
    STEPCAST_CHECK(!config.error().empty(), "what cannot be read has a mistake");
    CheckMistakes(config.error());
  }
}

void ReadTopology(std::string_view text) {
  const auto topology = ReadDocumentWith(text, [](const Node& node, Diagnostics& mistakes) {
    return scenario::ReadTopology(node, mistakes);
  });
  if (!topology.has_value()) return;
  Diagnostics mistakes;
  const bool flat = std::holds_alternative<topology::FlatCluster>(topology->description);
  scenario::BuildCluster(*topology, flat ? std::optional<std::int64_t>() : 2, {"fuzz.yaml", 1, 1},
                         mistakes);
  CheckMistakes(mistakes);
}

void ReadCalibration(std::string_view text) {
  ReadDocumentWith(text, [](const Node& node, Diagnostics& mistakes) {
    return scenario::ReadCalibration(node, mistakes);
  });
}

void ReadMeasurements(std::string_view text) {
  const auto read_with = [&](auto read) {
    ReadDocumentWith(text,
                     [&](const Node& node, Diagnostics& mistakes) { return read(node, mistakes); });
  };
  read_with(scenario::ReadPublished);
  read_with(scenario::ReadCurves);
  read_with(scenario::ReadGpu);
  read_with(scenario::ReadFrameworkCosts);
}

namespace {

void CheckImport(const Result<formats::ImportedTopology>& imported) {
  if (!imported.has_value()) {
    STEPCAST_CHECK(!imported.error().empty(), "what cannot be read has a mistake");
    CheckMistakes(imported.error());
    return;
  }
  const std::string text = report::TopologyYaml("imported", "machine", imported->notes,
                                                imported->node_type, imported->fabric);
  const auto read = ReadDocumentWith(text, [](const Node& node, Diagnostics& mistakes) {
    return scenario::ReadTopology(node, mistakes);
  });
  STEPCAST_CHECK(read.has_value(), "what was imported reads back");
}

formats::ImportOptions Given() {
  formats::ImportOptions options;
  options.gpu = "h100-sxm";
  options.nic_speed = Bandwidth::GigabytesPerSecond(50);
  return options;
}

}  // namespace

void ReadNcclTopology(std::string_view text) {
  CheckImport(formats::ParseNcclTopology(text, "fuzz.xml", {}));
  CheckImport(formats::ParseNcclTopology(text, "fuzz.xml", Given()));
}

void ReadNvidiaSmi(std::string_view text) {
  CheckImport(formats::ParseNvidiaSmiTopology(text, "fuzz.txt", Given()));
}

void ReadKineto(std::string_view text) {
  const auto step = formats::ParseKineto(text, "trace.json", std::nullopt);
  if (!step.has_value()) {
    STEPCAST_CHECK(!step.error().empty(), "what cannot be read has a mistake");
    CheckMistakes(step.error());
    return;
  }
  Diagnostics mistakes;
  const auto document =
      scenario::ParseDocument(report::LayerListYaml("traced", *step), "model.yaml", mistakes);
  STEPCAST_CHECK(document.has_value() && mistakes.empty(), "what was imported is a document");
  const auto read = scenario::ReadModel(*document, mistakes);
  for (const Diagnostic& mistake : mistakes) {
    STEPCAST_CHECK(mistake.code == "model.too-large" || mistake.code == "input.out-of-range",
                   "what was imported reads back, unless it is too large");
  }
  STEPCAST_CHECK(read.has_value() || !mistakes.empty(), "a model, or why there is none");
}

void ReadNcclTests(std::string_view text) {
  const auto runs = formats::ParseNcclTests(text, "fuzz.log");
  if (!runs.has_value()) {
    STEPCAST_CHECK(!runs.error().empty(), "what cannot be read has a mistake");
    CheckMistakes(runs.error());
    return;
  }
  formats::NcclTestsOptions options;
  options.collective = CollectiveKind::kAllReduce;
  options.ranks = 2;
  options.ranks_per_node = 1;
  options.name = "imported";
  const auto imported = formats::ProfileOf(*runs, options);
  if (!imported.has_value()) {
    CheckMistakes(imported.error());
    return;
  }
  const auto read = ReadDocumentWith(report::CalibrationYaml(imported->profile),
                                     [](const Node& node, Diagnostics& mistakes) {
                                       return scenario::ReadCalibration(node, mistakes);
                                     });
  STEPCAST_CHECK(read.has_value(), "what was imported reads back");
}

namespace {

// A folder of this process, until it ends.
const std::filesystem::path& Folder() {
  struct Made {
    std::string path = (std::filesystem::temp_directory_path() / "stepcast-fuzz.XXXXXX").string();
    std::filesystem::path folder;
    Made() {
      STEPCAST_CHECK(::mkdtemp(path.data()) != nullptr, "a temporary folder can be made");
      folder = path;
    }
    ~Made() {
      std::error_code ignored;
      std::filesystem::remove_all(folder, ignored);
    }
  };
  static const Made made;
  return made.folder;
}

// A file for readers that open files, while this object lives.
class WrittenFile {
 public:
  WrittenFile(std::string_view bytes, std::string_view ending)
      : path_((Folder() / fmt::format("fuzz.{}", ending)).string()) {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  ~WrittenFile() {
    std::error_code ignored;
    for (const char* more : {"", "-wal", "-shm", "-journal"}) {
      std::filesystem::remove(path_ + more, ignored);
    }
  }
  WrittenFile(const WrittenFile&) = delete;
  WrittenFile& operator=(const WrittenFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

// Reads the text in the syntax of files with this extension.
void ReadForeign(std::string_view text, std::string_view ending) {
  const WrittenFile file(text, ending);
  const auto imported =
      foreign::Import({.files = {file.path()}, .model = "llama3.1-8b", .cluster = "dgx-h100"});
  if (!imported.has_value()) {
    STEPCAST_CHECK(!imported.error().empty(), "what cannot be read has a mistake");
    CheckMistakes(imported.error());
    return;
  }
  Diagnostics mistakes;
  const auto document = scenario::ParseDocument(imported->scenario.text, "fuzz.yaml", mistakes);
  if (!mistakes.empty()) {
    std::fprintf(stderr, "%s\n%s", imported->scenario.text.c_str(), Format(mistakes).c_str());
  }
  STEPCAST_CHECK(document.has_value() && mistakes.empty(), "what is written is a document");
}

}  // namespace

void ReadToml(std::string_view text) { ReadForeign(text, "toml"); }
void ReadShell(std::string_view text) { ReadForeign(text, "sh"); }
void ReadPython(std::string_view text) { ReadForeign(text, "py"); }
void ReadForeignYaml(std::string_view text) { ReadForeign(text, "yaml"); }

void ReadMeasuredMemory(std::string_view bytes) {
  const auto measured = formats::ParseMeasuredMemory(bytes, "snapshot");
  if (!measured.has_value()) {
    STEPCAST_CHECK(!measured.error().empty(), "what cannot be read has a mistake");
    return CheckMistakes(measured.error());
  }
  STEPCAST_CHECK(measured->allocated > Bytes(), "something was allocated");
}

void ReadPackedTrace(std::string_view bytes) {
  constexpr std::size_t kLargest = std::size_t{64} << 20;
  const WrittenFile file(bytes, "json.gz");
  Diagnostics mistakes;
  std::size_t given = 0;
  if (auto trace = formats::TraceText::Open(file.path(), mistakes, kLargest)) {
    for (std::string_view block = trace->Next(); !block.empty(); block = trace->Next()) {
      given += block.size();
    }
  }
  STEPCAST_CHECK(given <= kLargest, "no more is given than the most that a trace may be");
  CheckMistakes(mistakes);
}

void ReadSchedule(std::string_view text) {
  const auto schedule = formats::ParseScheduleCsv(text, "schedule.csv");
  if (!schedule.has_value()) {
    STEPCAST_CHECK(!schedule.error().empty(), "what cannot be read has a mistake");
    return CheckMistakes(schedule.error());
  }
  const auto again = formats::ParseScheduleCsv(formats::ScheduleCsv(*schedule), "schedule.csv");
  STEPCAST_CHECK(again.has_value() && *again == *schedule, "what is written reads back");
}

void ReadRuns(std::string_view text) {
  const WrittenFile file(text, "csv");
  const auto table = scenario::LoadRunsTable(file.path(), "", {});
  if (!table.has_value()) {
    STEPCAST_CHECK(!table.error().empty(), "what cannot be read has a mistake");
    return CheckMistakes(table.error());
  }
  CheckMistakes(table->mistakes);
  STEPCAST_CHECK(table->runs.size() == table->files.size(), "each run has its file");
  STEPCAST_CHECK(!table->runs.empty() || !table->mistakes.empty(), "runs, or why there are none");
}

void ReadStore(std::string_view bytes) {
  const WrittenFile file(bytes, "store");
  auto store = planner::ResultStore::Open(file.path(), {{"grid", "1"}});
  if (!store.has_value()) {
    STEPCAST_CHECK(!store.error().wrong_input.empty() || !store.error().failure.empty(),
                   "what is no store has a reason");
    return CheckMistakes(store.error().wrong_input);
  }
  (*store)->Find("key");
  (*store)->Put("key", "result");
  const auto finished = (*store)->Finish();
  STEPCAST_CHECK(finished.has_value() || !finished.error().empty(), "a failure has a reason");
}

void ReadQuestion(std::string_view line) {
  std::string scenario;
  std::vector<std::string> set;
  study::PlanQuestion plan;
  std::map<std::string, Question> questions;
  for (const char* name : {"simulate", "plan"}) {
    Question& question = questions[name];
    question.Option("--scenario", &scenario, formats::kPathOrObject, "").Required();
    question.Option("--set", &set, "KEY=VALUE", "");
  }
  plan.DescribeGoal(questions["plan"]);
  plan.DescribeAnswer(questions["plan"]);
  const formats::ReadQuestion read = formats::ParseQuestion(line, questions);
  STEPCAST_CHECK(!read.id.empty(), "every answer has an id");
  if (read.ask.has_value()) return;
  STEPCAST_CHECK(!read.ask.error().empty(), "what cannot be read has a mistake");
  CheckMistakes(read.ask.error());
}

void ReadCalibrationState(std::string_view text) {
  const auto state = calibrate::MeasurementState::Parse(text);
  if (!state.has_value()) return;
  const auto again = calibrate::MeasurementState::Parse(state->Text());
  STEPCAST_CHECK(again.has_value() && again->Text() == state->Text(), "what is kept reads back");
}

}  // namespace stepcast::fuzz
