#include "src/lowering/training_step.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "src/base/check.h"
#include "src/base/kernel.h"

namespace stepcast::lowering {

using program::Category;
using program::Phase;

TrainingStep::TrainingStep(const scenario::Scenario& scenario, const LowerOptions& options)
    : scenario_(scenario),
      options_(options),
      builder_(options),
      host_work_(scenario, builder_),
      own_works_(
          options.works != nullptr
              ? std::vector<model::LayerWork>()
              : model::BuildWork(*scenario.model, plan::WorkOptionsOf(scenario.plan.training))),
      works_(options.works != nullptr ? *options.works : own_works_),
      work_of_layer_(
          model::WorkOfLayers(*scenario.model, plan::WorkOptionsOf(scenario.plan.training))),
      offload_(builder_) {
  const StreamId compute_stream = builder_.AddStream("compute");
  STEPCAST_CHECK(compute_stream == compute(), "the compute stream is the first one");

  // A compiled block's kernels are launched by one call; a layer list's times hold all there is.
  const bool eager = !plan().training.compile;
  const auto add_kernels = [&](const auto& operators, Issuer issuer) {
    std::vector<Index> kernels;
    kernels.reserve(operators.size());
    for (const auto& op : operators) {
      Kernel kernel = op.kernel;
      if (eager && kernel.kind != KernelKind::kGiven) kernel.issuer = issuer;
      kernels.push_back(builder_.AddKernel(std::move(kernel)));
    }
    return kernels;
  };
  std::vector<const model::Layer*> sample(works_.size(), nullptr);
  const int layers = static_cast<int>(model().layers.size());
  for (int layer = 0; layer < layers; ++layer) {
    const model::Layer*& of_work = sample[work_of(layer)];
    if (!of_work) of_work = &model().layers[layer];
  }
  for (std::size_t w = 0; w < works_.size(); ++w) {
    const model::LayerWork& work = works_[w];
    const std::string name = sample[w] ? sample[w]->name : std::string("unused");
    forward_kernels_.push_back(add_kernels(work.forward, Issuer::kModule));
    recompute_kernels_.push_back(add_kernels(work.recompute, Issuer::kModule));
    backward_kernels_.push_back(add_kernels(work.backward, Issuer::kAutograd));
    auto& recomputed = recomputed_.emplace_back();
    for (const model::Activation& activation : work.recomputed) {
      recomputed.push_back(builder_.AddBuffer(
          builder_.Named(name,
                         builder_.Named(builder_.Named("/", activation.name), " (recomputed)")),
          activation.bytes, Category::kActivation));
    }
    // Blocks come one after another with the same tensors, whose memory is used again and again
    // between the block's begin and its end: one piece stands for it. The tensors of a layer that
    // comes once are handed out one by one, and what is between them is lost in pieces.
    const bool once = sample[w] && sample[w]->kind != model::LayerKind::kBlock;
    const auto add_transient = [&](const char* phase, Bytes all, std::vector<Bytes> tensors) {
      if (!once) tensors.assign(all > Bytes(0) ? 1 : 0, all);
      std::vector<Index> buffers;
      for (const Bytes bytes : tensors) {
        buffers.push_back(builder_.AddBuffer(
            builder_.Named(builder_.Named(builder_.Named(name, "/"), phase), " temporaries"), bytes,
            Category::kActivation));
      }
      return buffers;
    };
    forward_transient_.push_back(
        add_transient("forward", work.forward_transient, work.forward_temporaries));
    backward_transient_.push_back(
        add_transient("backward", work.backward_transient, work.backward_temporaries));
  }
  layers_of_tensor_.assign(model().tensors.size(), 0);
  for (int index = 0; index < layers; ++index) {
    const model::Layer& layer = model().layers[index];
    labels_.push_back(builder_.AddLabel(layer.name));
    auto& saved = saved_.emplace_back();
    saved.reserve(works_[work_of(index)].saved.size());
    for (const model::Activation& activation : works_[work_of(index)].saved) {
      saved.push_back(
          builder_.AddBuffer(builder_.Named(layer.name, builder_.Named("/", activation.name)),
                             activation.bytes, Category::kActivation));
    }
    if (plan().training.activation_offload && layer.kind == model::LayerKind::kBlock) {
      offload_.AddBlock(index, saved);
    }
    for (const int tensor : layer.tensors) ++layers_of_tensor_[tensor];
  }
  std::int64_t elements = 0;
  for (std::size_t t = 0; t < model().tensors.size(); ++t) {
    const model::Tensor& tensor = model().tensors[t];
    first_elements_.push_back(elements);
    elements += tensor.elements;
    tied_contribution_.push_back(
        layers_of_tensor_[t] == 1
            ? program::kNone
            : builder_.AddBuffer(builder_.Named(tensor.name, ".grad (tied)"),
                                 BytesOf(tensor.elements, plan().training.precision),
                                 Category::kGradient));
  }
}

program::Program TrainingStep::Write(Technique& technique) {
  builder_.SetOptimizer(plan().training.optimizer == plan::Optimizer::kAdamW);
  technique.WritePrologue();
  offload_.WritePrologue();
  if (plan().training.host_waits == plan::HostWaits::kPhase) {
    for (StreamId stream = 0; stream < builder_.streams(); ++stream) {
      drained_.push_back(builder_.AddEvent(builder_.Numbered("drained", stream)));
    }
  } else if (plan().training.host_waits != plan::HostWaits::kNever) {
    drained_.push_back(builder_.AddEvent("read by the host"));
  }
  host_work_.WritePrologue();  // its streams are the host's
  builder_.BeginStep();
  builder_.ReserveStep(ExpectedInstructions());
  builder_.SetPhase(Phase::kForward);
  technique.BeginStep();
  const int layers = static_cast<int>(model().layers.size());
  for (micro_batch_ = 0; micro_batch_ < plan().training.gradient_accumulation; ++micro_batch_) {
    builder_.SetMicroBatch(micro_batch_);
    builder_.SetPhase(Phase::kForward);
    host_work_.BeginMicroBatch(micro_batch_);
    technique.BeginForward();
    for (int layer = 0; layer < layers; ++layer) WriteForward(technique, layer);
    builder_.SetLabel(program::kNone);
    WaitOnHost(plan::HostWaits::kPhase);
    builder_.SetPhase(Phase::kBackward);
    missing_ = layers_of_tensor_;
    for (int layer = layers - 1; layer >= 0; --layer) WriteBackward(technique, layer);
    builder_.SetLabel(program::kNone);
    technique.EndBackward();
    WaitOnHost(plan::HostWaits::kMicroBatch);
    host_work_.EndMicroBatch();
  }
  --micro_batch_;
  WaitOnHost(plan::HostWaits::kUpdate);
  builder_.SetPhase(Phase::kOptimizer);
  builder_.SetLabel(builder_.AddLabel("optimizer"));
  technique.WriteUpdate();
  host_work_.EndStep();
  builder_.SetLabel(program::kNone);
  WaitOnHost(plan::HostWaits::kStep);
  return builder_.Take();
}

// Roughly, so that the step seldom has to move.
std::size_t TrainingStep::ExpectedInstructions() const {
  std::size_t of_micro_batch = 0;
  for (const int w : work_of_layer_) {
    const model::LayerWork& work = works_[w];
    of_micro_batch += work.forward.size() + work.recompute.size() + work.backward.size() +
                      2 * (work.saved.size() + work.recomputed.size()) + 24;
  }
  const auto micro_batches = static_cast<std::size_t>(plan().training.gradient_accumulation);
  const std::size_t tensors = model().tensors.size();
  return micro_batches * (of_micro_batch + 4 * tensors) + 8 * tensors + 64;
}

void TrainingStep::WaitOnHost(plan::HostWaits where) {
  const plan::HostWaits waits = plan().training.host_waits;
  // A phase ends after each forward, each backward and the update.
  const bool phase = waits == plan::HostWaits::kPhase && where != plan::HostWaits::kUpdate;
  if (waits != where && !phase) return;
  for (std::size_t stream = 0; stream < drained_.size(); ++stream) {
    builder_.Record(static_cast<StreamId>(stream), drained_[stream]);
  }
  for (const Index event : drained_) builder_.HostWait(event);
}

void TrainingStep::WithGradient(int tensor, std::int64_t first, std::int64_t elements,
                                const program::Elements& target, const program::Elements& source,
                                bool add, std::vector<program::BufferUse>& uses) {
  if (!builder_.describes_data_flow()) return;
  uses.push_back(Reads(source.buffer, source.offset, BytesOf(elements, source.type)));
  builder_.With({.kind = program::EffectKind::kGradient,
                 .add = add,
                 .target = target,
                 .source = source,
                 .elements = elements,
                 .first_element = first_element(tensor) + first,
                 .scale = 1.0 / static_cast<double>(plan().training.gradient_accumulation)});
}

// The first and the last kernel name the parameters: with stream order in between, that is enough
// for the validator to see every hazard of the layer.
void TrainingStep::RunLayer(Technique& technique, Technique::Pass pass, int layer,
                            const std::vector<Index>& kernels,
                            const std::vector<model::ForwardOperator>& operators,
                            const std::vector<Index>& activations) {
  for (std::size_t i = 0; i < operators.size(); ++i) {
    uses_.clear();
    if (i == 0 || i + 1 == operators.size()) uses_ = parameter_reads_;
    technique.BeforeOperator(pass, layer, i, uses_);
    for (const int created : operators[i].creates) {
      builder_.Allocate(compute(), activations[created]);
      uses_.push_back(builder_.WritesAll(activations[created]));
    }
    builder_.Run(compute(), kernels[i], uses_);
    technique.AfterOperator(pass, layer, i);
  }
}

void TrainingStep::WriteForward(Technique& technique, int layer) {
  const int w = work_of(layer);
  builder_.SetLabel(labels_[layer]);
  technique.BeforeForward(layer);
  parameter_reads_.clear();
  technique.AppendParameterReads(layer, parameter_reads_);
  for (const Index buffer : forward_transient_[w]) builder_.Allocate(compute(), buffer);
  RunLayer(technique, Technique::Pass::kForward, layer, forward_kernels_[w], works_[w].forward,
           saved_[layer]);
  for (const Index buffer : forward_transient_[w]) builder_.Release(buffer);
  offload_.AfterForward(layer);
  technique.AfterForward(layer);
}

void TrainingStep::WriteBackward(Technique& technique, int layer) {
  const model::Layer& layer_model = model().layers[layer];
  const int w = work_of(layer);
  const model::LayerWork& work = works_[w];
  builder_.SetLabel(labels_[layer]);
  technique.BeforeBackward(layer);
  offload_.BeforeBackward(layer);
  parameter_reads_.clear();
  technique.AppendParameterReads(layer, parameter_reads_);
  RunLayer(technique, Technique::Pass::kRecompute, layer, recompute_kernels_[w], work.recompute,
           recomputed_[w]);
  for (const Index buffer : backward_transient_[w]) builder_.Allocate(compute(), buffer);

  // What this layer contributes to a tied tensor, until it is added to the others'.
  std::vector<Index> contributions;
  for (const int tensor : layer_model.tensors) {
    if (missing_[tensor] == layers_of_tensor_[tensor]) continue;
    contributions.push_back(tied_contribution_[tensor]);
    builder_.Allocate(compute(), contributions.back());
  }
  std::vector<int> ready;
  for (std::size_t i = 0; i < work.backward.size(); ++i) {
    uses_.clear();
    if (i == 0 || i + 1 == work.backward.size()) {
      uses_ = parameter_reads_;
      if (builder_.all_uses()) {
        for (const Index buffer : saved_[layer]) uses_.push_back(builder_.ReadsAll(buffer));
        for (const Index buffer : recomputed_[w]) uses_.push_back(builder_.ReadsAll(buffer));
      }
    }
    technique.BeforeOperator(Technique::Pass::kBackward, layer, i, uses_);
    ready.clear();
    for (const int position : work.backward[i].gradients) {
      const int tensor = layer_model.tensors[position];
      technique.WriteGradient(layer, tensor, uses_);
      if (--missing_[tensor] == 0) ready.push_back(tensor);
    }
    builder_.Run(compute(), backward_kernels_[w][i], uses_);
    // Reverse registration order, as in GradientReadyOrder.
    std::sort(ready.begin(), ready.end(), std::greater<>());
    for (const int tensor : ready) technique.GradientReady(tensor);
    technique.AfterOperator(Technique::Pass::kBackward, layer, i);
  }
  for (const Index buffer : contributions) builder_.Release(buffer);
  for (const Index buffer : backward_transient_[w]) builder_.Release(buffer);
  for (const Index buffer : recomputed_[w]) builder_.Release(buffer);
  for (const Index buffer : saved_[layer]) builder_.Release(buffer);
  technique.AfterBackward(layer);
}

}  // namespace stepcast::lowering
