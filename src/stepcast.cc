#include "src/stepcast.h"

#include "nlohmann/json.hpp"
#include "src/base/diagnostic.h"
#include "src/base/files_read.h"
#include "src/cli/compare_command.h"
#include "src/cli/explain_command.h"
#include "src/cli/memory_command.h"
#include "src/cli/outcome.h"
#include "src/cli/plan_command.h"
#include "src/cli/simulate_command.h"
#include "src/cli/sweep_command.h"
#include "src/scenario/memory_document.h"

namespace stepcast::library {
namespace {

using Json = nlohmann::ordered_json;

// The scenario as a command takes it: a path, or the name of the text for the life of this object.
class Source {
 public:
  explicit Source(const Input& input) : path_(input.path) {
    if (input.path.empty()) document_.emplace(input.title, input.text);
  }
  const std::string& name() const { return document_ ? document_->name() : path_; }

 private:
  std::string path_;
  std::optional<scenario::MemoryDocument> document_;
};

Failure FailureOf(const cli::Outcome& outcome) {
  Failure failure;
  for (const Diagnostic& diagnostic : outcome.diagnostics) {
    failure.mistakes.push_back({diagnostic.code, diagnostic.location.file, diagnostic.location.line,
                                diagnostic.location.column, diagnostic.message, diagnostic.hint});
  }
  if (failure.mistakes.empty()) failure.reason = outcome.messages;
  return failure;
}

// Runs a command. Its answer may be no: that is in the document.
template <typename Command, typename Options>
Answer<std::string> Ask(Command command, Options& options) {
  options.json = true;
  const FilesRead files;  // none of which an output may replace
  const cli::Outcome outcome = command(options);
  if (outcome.status == cli::kWrongInput || outcome.status == cli::kFailed) {
    return tl::unexpected(FailureOf(outcome));
  }
  return outcome.output;
}

template <typename T>
std::optional<T> Number(const Json& value) {
  if (value.is_null()) return std::nullopt;
  return value.get<T>();
}

MemoryFigures Figures(const Json& memory, std::int64_t capacity) {
  return {memory.at("peak_bytes").get<std::int64_t>(),
          memory.at("reserved_bytes").get<std::int64_t>(),
          memory.at("outside_bytes").get<std::int64_t>(), capacity, memory.at("fits").get<bool>()};
}

SweepRow RowOf(const Json& row) {
  SweepRow made;
  for (const auto& [key, value] : row.at("set").items()) {
    made.set.emplace_back(key, value.get<std::string>());
  }
  made.status = row.at("status").get<std::string>();
  made.reason = row.at("reason").get<std::string>();
  made.step_time = Number<double>(row.at("step_time_s"));
  made.tokens_per_second_per_gpu = Number<double>(row.at("tokens_per_s_per_gpu"));
  made.peak = Number<std::int64_t>(row.at("peak_bytes"));
  made.reserved = Number<std::int64_t>(row.at("reserved_bytes"));
  made.outside = Number<std::int64_t>(row.at("outside_bytes"));
  made.capacity = Number<std::int64_t>(row.at("capacity_bytes"));
  return made;
}

cli::SimulateOptions SimulateOptions(const Input& input, const Source& source) {
  cli::SimulateOptions options;
  options.scenario = source.name();
  options.set = input.set;
  return options;
}

}  // namespace

Answer<Simulation> Simulate(const Input& input) {
  const Source source(input);
  cli::SimulateOptions options = SimulateOptions(input, source);
  auto text = Ask(cli::Simulate, options);
  if (!text) return tl::unexpected(std::move(text.error()));
  const Json document = Json::parse(*text);
  Simulation simulation;
  simulation.step_time = document.at("step_time_s").get<double>();
  simulation.tokens_per_second = document.at("tokens_per_s").get<double>();
  simulation.tokens_per_second_per_gpu = document.at("tokens_per_s_per_gpu").get<double>();
  simulation.mfu = Number<double>(document.at("mfu"));
  simulation.hfu = Number<double>(document.at("hfu"));
  const Json& memory = document.at("memory");
  simulation.memory = Figures(memory, memory.at("capacity_bytes").get<std::int64_t>());
  simulation.warnings = document.at("warnings").get<std::vector<std::string>>();
  simulation.json = *std::move(text);
  return simulation;
}

Answer<Sweeping> Sweep(const Input& input, const std::vector<std::string>& vary) {
  const Source source(input);
  cli::SweepOptions options;
  options.scenario = source.name();
  options.set = input.set;
  options.vary = vary;
  auto text = Ask(cli::Sweep, options);
  if (!text) return tl::unexpected(std::move(text.error()));
  Sweeping sweeping;
  const Json document = Json::parse(*text);
  for (const Json& row : document.at("rows")) sweeping.rows.push_back(RowOf(row));
  sweeping.json = *std::move(text);
  return sweeping;
}

Answer<Planning> Plan(const Input& input, const PlanQuestion& question) {
  const Source source(input);
  cli::PlanOptions options;
  options.scenario = source.name();
  options.set = input.set;
  options.vary = question.vary;
  options.fix = question.fix;
  options.framework = question.framework;
  options.target = question.target;
  options.deadline = question.deadline;
  options.tokens = question.tokens;
  options.price = question.price;
  options.headroom = question.headroom;
  options.fewer_nodes = question.fewer_nodes;
  options.best = question.best;
  options.why = question.why;
  options.threads = question.threads;
  options.emit = {question.folder, question.force};
  auto text = Ask(cli::Plan, options);
  if (!text) return tl::unexpected(std::move(text.error()));
  Planning planning;
  const Json document = Json::parse(*text);
  for (const Json& row : document.at("best")) planning.best.push_back(RowOf(row));
  planning.json = *std::move(text);
  return planning;
}

Answer<StagesMemory> Memory(const Input& input, bool max_micro_batch) {
  const Source source(input);
  cli::MemoryOptions options;
  options.scenario = source.name();
  options.set = input.set;
  options.max_micro_batch = max_micro_batch;
  auto text = Ask(cli::Memory, options);
  if (!text) return tl::unexpected(std::move(text.error()));
  StagesMemory memory;
  const Json document = Json::parse(*text);
  const auto capacity = document.at("capacity_bytes").get<std::int64_t>();
  for (const Json& stage : document.at("stages")) {
    StageMemory made;
    made.stage = stage.at("stage").get<int>();
    if (!stage.at("simulated").is_null()) made.simulated = Figures(stage.at("simulated"), capacity);
    if (const auto limit = stage.find("max_micro_batch"); limit != stage.end()) {
      made.max_micro_batch = limit->at("micro_batch_size").get<std::int64_t>();
    }
    memory.stages.push_back(made);
  }
  memory.json = *std::move(text);
  return memory;
}

Answer<Document> Compare(const Input& a, const Input& b) {
  const Source of_a(a);
  const Source of_b(b);
  cli::CompareOptions options;
  options.a = of_a.name();
  options.b = of_b.name();
  options.set_a = a.set;
  options.set_b = b.set;
  auto text = Ask(cli::Compare, options);
  if (!text) return tl::unexpected(std::move(text.error()));
  return Document{*std::move(text)};
}

Answer<Document> Explain(const Input& input) {
  const Source source(input);
  cli::ExplainOptions options;
  options.scenario = source.name();
  options.set = input.set;
  auto text = Ask(cli::Explain, options);
  if (!text) return tl::unexpected(std::move(text.error()));
  return Document{*std::move(text)};
}

Answer<Document> Emit(const Input& input, const std::string& folder, bool force) {
  const Source source(input);
  cli::SimulateOptions options = SimulateOptions(input, source);
  options.emit = {folder, force};
  auto text = Ask(cli::Simulate, options);
  if (!text) return tl::unexpected(std::move(text.error()));
  return Document{*std::move(text)};
}

}  // namespace stepcast::library
