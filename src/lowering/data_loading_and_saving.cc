#include "src/lowering/data_loading_and_saving.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "src/plan/optimizer_states.h"

namespace stepcast::lowering {

using program::Category;
using program::kNone;

namespace {

std::int64_t Quotient(std::int64_t dividend, std::int64_t divisor) {
  return (dividend + divisor - 1) / divisor;
}

// Two 64-bit integers per token: input and target. Zero for a layer list, whose inputs are unknown.
Bytes InputBytes(const scenario::Scenario& scenario) {
  const plan::Training& training = scenario.plan.training;
  if (training.data_loading->bytes) return *training.data_loading->bytes;
  if (scenario.model->is_layer_list()) return {};
  return Bytes(2 * 8 * training.micro_batch_size * training.sequence_length);
}

// Whether a save finds a rank's part of the parameters, of the optimizer's states, or all of them.
bool SharesParameters(const plan::DataParallel& data_parallel) {
  return data_parallel.zero_stage == 3 || plan::IsFsdp(data_parallel.framework);
}
bool SharesStates(const plan::DataParallel& data_parallel) { return data_parallel.zero_stage >= 1; }

}  // namespace

DataLoadingAndSaving::DataLoadingAndSaving(const scenario::Scenario& scenario,
                                           const PipelineStage& stage, ProgramBuilder& builder)
    : scenario_(scenario), stage_(stage), training_(scenario.plan.training), builder_(builder) {}

void DataLoadingAndSaving::WritePrologue(int slots) {
  loads_ = training_.data_loading.has_value() && (stage_.first() || stage_.last());
  if (loads_) {
    const auto& loading = training_.data_loading;
    if (loading->workers > 0) {
      loader_ = builder_.AddStream("data loading");
      load_ = builder_.AddHostKernel(
          "load_micro_batch", Picoseconds(Quotient(loading->time.picoseconds(), loading->workers)));
      for (std::int64_t m = 0; m < training_.gradient_accumulation; ++m) {
        loaded_.push_back(builder_.AddEvent("micro-batch loaded"));
      }
    }
    const Bytes input = InputBytes(scenario_);
    if (input > Bytes(0)) {
      for (int slot = 0; slot < slots; ++slot) {
        inputs_.push_back(builder_.AddBuffer("input", input, Category::kActivation));
      }
      copied_ = builder_.AddEvent("input copied");
    }
  }
  if (const auto& saving = training_.checkpoint_saving) {
    if (saving->mode == plan::CheckpointMode::kAsync) {
      writer_ = builder_.AddStream("checkpoint writing");
      written_ = builder_.AddEvent("checkpoint written");
    }
  }
}

void DataLoadingAndSaving::BeginMicroBatch(std::int64_t micro_batch, int slot) {
  if (!loads_) return;
  const auto& loading = training_.data_loading;
  if (loading->workers == 0) {
    builder_.RunOnHost("load_micro_batch", loading->time);
  } else {
    // This one was asked for when the one `ahead` before it was taken. More than a step's are never
    // needed ahead: a step takes as many as are asked for in it.
    const std::int64_t count = training_.gradient_accumulation;
    const std::int64_t ahead = std::min(count, loading->workers * loading->prefetch);
    builder_.HostWait(loaded_[(micro_batch - ahead + count) % count]);
    builder_.Run(loader_, load_, {});
    builder_.Record(loader_, loaded_[micro_batch]);
  }
  if (inputs_.empty()) return;
  const Index input = inputs_[static_cast<std::size_t>(slot)];
  builder_.Allocate(kCompute, input);
  builder_.ToDevice(kCompute, builder_.SizeOf(input), {builder_.WritesAll(input)});
  if (loading->pin_memory) return;
  builder_.Record(kCompute, copied_);
  builder_.HostWait(copied_);
}

void DataLoadingAndSaving::EndMicroBatch(int slot) {
  if (!inputs_.empty()) builder_.Release(inputs_[static_cast<std::size_t>(slot)]);
}

void DataLoadingAndSaving::EndStep() {
  const auto& saving = training_.checkpoint_saving;
  if (!saving) return;
  const CheckpointBytes bytes = CheckpointBytesOf(scenario_, stage_.model());
  const Bytes copied(Quotient(bytes.of_rank.count(), saving->every));
  __extension__ using Wide = __int128;
  const Wide rate = static_cast<Wide>(saving->bandwidth.bytes_per_second()) * saving->every;
  const Time writing = Picoseconds(static_cast<std::int64_t>(
      (static_cast<Wide>(bytes.of_node.count()) * 1'000'000'000'000 + rate - 1) / rate));
  const bool async = saving->mode == plan::CheckpointMode::kAsync;
  builder_.SetPhase(program::Phase::kCheckpoint);
  if (async) builder_.Wait(kCompute, written_);
  builder_.ToHost(kCompute, copied, {});
  const Index write = builder_.AddHostKernel("write_checkpoint", writing);
  if (!async) {
    builder_.Run(kCompute, write, {});
    return;
  }
  builder_.WaitForStream(writer_, kCompute, written_);
  builder_.Run(writer_, write, {});
  builder_.Record(writer_, written_);
}

CheckpointBytes CheckpointBytesOf(const scenario::Scenario& scenario, const model::Model& model) {
  const plan::Training& training = scenario.plan.training;
  const plan::DataParallel& data_parallel = scenario.plan.data_parallel;
  const std::int64_t count = model.parameter_count();
  const std::int64_t shards = plan::ShardRanks(scenario.plan);
  const std::int64_t ranks =
      std::min<std::int64_t>(scenario.cluster->gpus_per_node(), shards);  // of the node, that save
  // Whole ones by the first rank alone.
  std::int64_t of_rank = 0, of_node = 0;
  const auto add = [&](std::int64_t part, bool shared) {
    of_rank += part;
    of_node += shared ? ranks * part : part;
  };
  const auto share = [&](bool shared) { return shared ? Quotient(count, shards) : count; };
  const bool parameters = SharesParameters(data_parallel), states = SharesStates(data_parallel);
  add(SizeOf(training.parameter_dtype) * share(parameters), parameters);
  if (plan::HasEqualMoments(training.optimizer)) {
    add(plan::OptimizerBytesPerParameter(training) * share(states), states);
  } else {
    std::vector<int> tensors(model.tensors.size());
    std::iota(tensors.begin(), tensors.end(), 0);
    const Bytes all = plan::OptimizerStateBytes(scenario.plan, model, tensors);
    add(states ? Quotient(all.count(), shards) : all.count(), states);
  }
  return {.of_rank = Bytes(of_rank), .of_node = Bytes(of_node)};
}

}  // namespace stepcast::lowering
