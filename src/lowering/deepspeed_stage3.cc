#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/lowering/deepspeed_parts.h"
#include "src/lowering/framework_steps.h"
#include "src/lowering/host_offload.h"
#include "src/lowering/layouts.h"
#include "src/lowering/operations.h"
#include "src/lowering/partitioned_state.h"
#include "src/lowering/step_parts.h"
#include "src/lowering/training_step.h"
#include "src/model/layer_work.h"

namespace stepcast::lowering {
namespace {

// A module as frameworks with hooks see it: its hooks run before its first kernel and after its
// last. Only modules with parameters of their own count.

struct ModuleRun {
  std::size_t first = 0, last = 0;  // operators
  std::vector<int> parameters{};    // positions in Layer::tensors, ascending
};

// The runs of one list of operators (LayerWork::forward, recompute or backward), in order.
std::vector<ModuleRun> ModuleRunsOf(std::span<const model::Operation> operators) {
  std::vector<ModuleRun> runs;
  for (std::size_t op = 0; op < operators.size(); ++op) {
    std::vector<int> parameters = operators[op].parameters;
    if (parameters.empty()) continue;
    std::sort(parameters.begin(), parameters.end());
    if (!runs.empty() && runs.back().parameters == parameters) {
      runs.back().last = op;
    } else {
      runs.push_back({.first = op, .last = op, .parameters = std::move(parameters)});
    }
  }
  return runs;
}

using program::BufferUse;
using program::Category;

class Stage3 final : public FrameworkStrategy {
 public:
  explicit Stage3(TrainingStep& step)
      : FrameworkStrategy(step),
        overlap_(plan_.data_parallel.overlap),
        groups_(ProcessGroupsOf(step.grids(), step.rank())),
        parts_(step.model(), groups_.data.size()),
        type_(plan_.training.parameter_dtype),
        kept_in_(plan_.training.gradient_dtype),
        offload_(step),
        parameters_(step, operations_, offload_, groups_, parts_),
        gradients_(step, operations_, offload_, groups_, parts_) {}

  void WritePrologue() override {
    const StreamId compute = step_.compute();
    gather_stream_ = overlap_ ? builder_.AddStream("all-gather") : compute;
    reduce_stream_ = overlap_ ? builder_.AddStream("reduce and partition") : compute;
    const StreamId nccl_stream = builder_.AddStream("nccl data");
    const Index communicator = builder_.AddCommunicator("data", groups_.data);
    parameters_.SetStreams(gather_stream_, nccl_stream, communicator);
    gradients_.SetStreams(reduce_stream_, communicator);
    AllocateFrameworkWorkspaces(step_);
    updated_ = builder_.AddEvent("updated");
    parameters_.AddEvents();
    gradients_.AddEvents();
    offload_.WritePrologue();
    parameters_.AddPartition();
    gradients_.AddPartition();
    parameters_.AddTensors();
    AddModules();
    update_.emplace(step_, communicator);
    AddSubGroups();
  }

  void BeginStep() override {
    if (gather_stream_ != step_.compute()) builder_.Wait(gather_stream_, updated_);
  }

  void BeginForward() override { parameters_.BeginMicroBatch(); }

  void AppendParameterReads(int, std::vector<BufferUse>&) override {}

  bool follows_operators() const override { return true; }
  void BeforeOperator(Pass pass, int layer, std::size_t op) override {
    const ModuleRun* run = RunAt(pass, layer, op);
    if (run == nullptr) return;
    if (run->first == op) parameters_.Fetch();
    for (const int position : run->parameters) {
      builder_.Use(Reads(parameters_.Place(step_.model().layers[layer].tensors[position])));
    }
  }

  void AfterOperator(Pass pass, int layer, std::size_t op) override {
    const ModuleRun* run = RunAt(pass, layer, op);
    if (run == nullptr || run->last != op) return;
    // DeepSpeed's hook after backward does not run for a module whose input has no gradient.
    if (pass == Pass::kBackward && layer == 0) return;
    parameters_.Release();
  }

  void WriteGradient(int /*layer*/, int tensor) override {
    gradients_.Write(tensor, parameters_.Place(tensor).place);
  }

  void GradientReady(int tensor) override { gradients_.Ready(tensor); }

  void EndBackward() override {
    gradients_.Finish();
    parameters_.ReleaseRest();
  }

  void WriteUpdate() override {
    parameters_.ReleasePersistent();
    if (offload_.optimizer()) {
      UpdateOnHost();
    } else {
      UpdateOnDevice();
    }
    parameters_.Renew();
    builder_.Record(step_.compute(), updated_);
  }

 private:
  struct SubGroup {
    std::vector<int> tensors;
    std::int64_t first = 0;  // element of this rank's parts
    UpdateGroup update;
  };

  Range Part(const SubGroup& group, const Range& flat) const {
    return flat.Part(group.first, group.update.elements);
  }

  // The modules of each layer, and in which order a micro-batch visits them.
  void AddModules() {
    for (const model::LayerWork& work : step_.works()) {
      runs_.push_back(
          {ModuleRunsOf(work.forward), ModuleRunsOf(work.recompute), ModuleRunsOf(work.backward)});
    }
    std::vector<ParameterCoordinator::Parameters> visits;
    const auto& layers = step_.model().layers;
    const auto visit = [&](int index, Pass pass) {
      const model::Layer& layer = layers[index];
      for (const ModuleRun& run : runs_[step_.work_of(index)][static_cast<std::size_t>(pass)]) {
        auto& parameters = visits.emplace_back();
        for (const int position : run.parameters) parameters.push_back(layer.tensors[position]);
        std::sort(parameters.begin(), parameters.end());
      }
    };
    const int count = static_cast<int>(layers.size());
    for (int layer = 0; layer < count; ++layer) visit(layer, Pass::kForward);
    for (int layer = count - 1; layer >= 0; --layer) {
      visit(layer, Pass::kRecompute);
      visit(layer, Pass::kBackward);
    }
    parameters_.SetVisits(std::move(visits));
  }

  const ModuleRun* RunAt(Pass pass, int layer, std::size_t op) const {
    const auto& runs = runs_[step_.work_of(layer)][static_cast<std::size_t>(pass)];
    for (const ModuleRun& run : runs) {
      if (op >= run.first && op <= run.last && !run.parameters.empty()) {
        // Kernels without parameters may stand between the kernels of a module.
        return &run;
      }
    }
    return nullptr;
  }

  // Parameters in registration order. The parameter that fills a group closes it.
  void AddSubGroups() {
    SubGroup open;
    std::int64_t elements = 0, padding = 0;
    const auto close = [&] {
      if (elements == 0) return;
      if (offload_.optimizer()) {
        open.update.elements = elements;
      } else {
        open.update = update_->AddGroup("sub-group " + std::to_string(sub_groups_.size()) + "/",
                                        elements, padding);
        for (const int t : open.tensors) {
          const Piece own = parameters_.Own(t);
          update_->AddState(open.update, own.offset - open.first,
                            step_.first_element(t) + own.first, own.elements);
        }
      }
      sub_groups_.push_back(std::exchange(open, {}));
      elements = padding = 0;
    };
    for (const BlockLayout::Block& block : parts_.blocks()) {
      if (block.length == 0) continue;
      if (open.tensors.empty()) open.first = block.offset;
      open.tensors.push_back(block.tensor);
      elements += block.length;
      padding += block.length - block.elements / parts_.ranks();
      if (elements >= plan_.data_parallel.deepspeed.sub_group_size) close();
    }
    close();
  }

  void UpdateOnDevice() {
    const Range& flat = gradients_.partition();
    update_->CheckOverflow(reduce_stream_, 1, parts_.shard(), {Reads(flat)});
    bool first = true;
    for (const SubGroup& group : sub_groups_) {
      std::vector<program::Effect> squares;
      for (const int t : group.tensors) {
        const Piece own = parameters_.Own(t);
        if (!builder_.describes_data_flow() || own.elements == 0) continue;
        squares.push_back(update_->SquaresOf(flat.At(own.offset), own.elements, 1));
      }
      update_->TakeNorm(static_cast<std::int64_t>(group.tensors.size()), group.update.elements,
                        {Reads(Part(group, flat))}, squares, std::exchange(first, false));
    }
    for (const SubGroup& group : sub_groups_) Update(group);
  }

  void Update(const SubGroup& group) {
    const StreamId compute = step_.compute();
    const Range& flat = gradients_.partition();
    std::vector<program::Effect> moves, updates;
    for (const int t : group.tensors) {
      const Piece own = parameters_.Own(t);
      const std::int64_t offset = own.offset - group.first;
      AppendJoined(
          moves, Move(At(group.update.flat, offset, kept_in_), flat.At(own.offset), own.elements));
      AppendJoined(updates, update_->UpdateOf(group.update, parameters_.partition().At(own.offset),
                                              offset, own.elements));
    }
    update_->Flatten(group.update, {Reads(Part(group, flat))}, moves);
    if (!offload_.parameters()) {
      update_->Apply(group.update, {Writes(Part(group, parameters_.partition()))}, updates);
      return;
    }
    // The update is written to a buffer of its own and sent to the host.
    const Range updated =
        operations_.AddRange({.first = builder_.AddText("updated parameters")},
                             group.update.elements, type_, Category::kCommunication);
    operations_.Allocate(compute, updated);
    update_->Apply(group.update, {Writes(updated)}, updates);
    builder_.ToHost(compute, updated.size(), {Reads(updated)});
    offload_.ParametersOnward(updated.size());
    operations_.Release(updated);
  }

  // offload_optimizer: the gradients are on the host and their norm is known. Updated parameters
  // return to where they are kept.
  void UpdateOnHost() {
    update_->AgreeOnScalar();
    gradients_.AwaitCompute();
    for (const SubGroup& group : sub_groups_) {
      const Range part = Part(group, parameters_.partition());
      offload_.Update(group.update.elements);
      offload_.ParametersOnward(part.size());
      if (offload_.parameters()) continue;
      builder_.ToDevice(step_.compute(), part.size(), {Writes(part)});
    }
  }

  const bool overlap_;
  const ProcessGroups groups_;
  const BlockLayout parts_;
  const DataType type_, kept_in_;
  StreamId gather_stream_ = 0, reduce_stream_ = 0;
  Index updated_ = program::kNone;  // event
  HostOffload offload_;
  PartitionedParameters parameters_;
  PartitionedGradients gradients_;
  std::vector<std::array<std::vector<ModuleRun>, 3>> runs_;  // by work, then pass
  std::optional<DeepSpeedUpdate> update_;
  std::vector<SubGroup> sub_groups_;
};

}  // namespace

program::Program LowerDeepSpeedStage3(const scenario::Scenario& scenario,
                                      const LowerOptions& options) {
  return LowerWith<Stage3>(scenario, options);
}

}  // namespace stepcast::lowering
