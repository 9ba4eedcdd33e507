#include "src/lowering/training_step.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "src/base/check.h"
#include "src/base/kernel.h"
#include "src/parallel/axis.h"
#include "src/plan/rank_grid.h"

namespace stepcast::lowering {

using program::Category;
using program::Phase;

namespace {

// Slots of the passes' activations. Where a receive is posted a pass ahead, its slot is taken then.
std::vector<int> SlotsOf(const std::vector<parallel::Action>& passes, bool ahead) {
  std::vector<int> slots(passes.size(), -1);
  std::vector<int> slot_of;  // [micro-batch]
  std::vector<bool> taken;   // [slot]
  const auto take = [&](std::size_t pass) {
    if (pass >= passes.size() || slots[pass] >= 0) return;
    const auto micro_batch = static_cast<std::size_t>(passes[pass].micro_batch);
    slot_of.resize(std::max(slot_of.size(), micro_batch + 1), -1);
    if (passes[pass].task == parallel::Task::kForward) {
      const auto free = std::find(taken.begin(), taken.end(), false);
      slot_of[micro_batch] = static_cast<int>(free - taken.begin());
      if (free == taken.end()) taken.push_back(false);
      taken[static_cast<std::size_t>(slot_of[micro_batch])] = true;
    }
    slots[pass] = slot_of[micro_batch];
  };
  for (std::size_t pass = 0; pass < passes.size(); ++pass) {
    take(pass);
    if (ahead) take(pass + 1);
    if (passes[pass].task == parallel::Task::kForward) continue;
    taken[static_cast<std::size_t>(slots[pass])] = false;
  }
  return slots;
}

MessageStyle StyleOf(plan::Framework framework) {
  return plan::TraitsOf(framework).blocking_messages ? MessageStyle::kBlocking
                                                     : MessageStyle::kOverlapped;
}

StageMessages::Stage MessagesOf(const scenario::Scenario& scenario, const PipelineStage& stage,
                                const std::vector<model::LayerWork>& works) {
  const MessageStyle style = StyleOf(scenario.plan.data_parallel.framework);
  StageMessages::Stage messages{
      .stage = stage.stage(),
      .stages = stage.stages(),
      .pipeline = plan::GridOf(scenario.plan).Layout(parallel::Axis::kPipeline),
      .style = style,
      .type = plan::ComputeType(scenario.plan.training.precision),
      .passes = stage.passes(),
      .slots = SlotsOf(stage.passes(), stage.stages() > 1 && style == MessageStyle::kOverlapped)};
  // What a stage hands on is what its last layer makes.
  const auto output = [&](const model::Layer& layer) {
    return works[static_cast<std::size_t>(layer.work)].output;
  };
  if (!stage.first()) messages.received = output(stage.layer_before());
  if (!stage.last()) messages.sent = output(stage.model().layers.back());
  return messages;
}

}  // namespace

TrainingStep::TrainingStep(const scenario::Scenario& scenario, const LowerOptions& options)
    : scenario_(scenario),
      options_(options),
      stage_(scenario, plan::StageOf(scenario.plan, options.rank)),
      builder_(options),
      host_work_(scenario, stage_, builder_),
      own_works_(
          options.works != nullptr
              ? std::vector<model::LayerWork>()
              : model::BuildWork(*scenario.model, plan::WorkOptionsOf(scenario.plan.training))),
      works_(options.works != nullptr ? *options.works : own_works_),
      work_of_layer_(
          model::WorkOfLayers(stage_.model(), plan::WorkOptionsOf(scenario.plan.training))),
      offload_(builder_),
      messages_(MessagesOf(scenario, stage_, works_), builder_),
      values_(stage_.stage(), stage_.stages(), builder_) {
  slot_of_pass_ = messages_.stage().slots;
  for (const int slot : slot_of_pass_) slots_ = std::max(slots_, slot + 1);
  const StreamId compute_stream = builder_.AddStream("compute");
  STEPCAST_CHECK(compute_stream == compute(), "the compute stream is the first one");

  std::vector<const model::Layer*> sample(works_.size(), nullptr);
  for (std::size_t layer = model().layers.size(); layer-- > 0;) {
    sample[work_of_layer_[layer]] = &model().layers[layer];
  }
  std::size_t kernels = 0, saved = 0;
  for (const model::LayerWork& work : works_) {
    kernels += work.forward.size() + work.recompute.size() + work.backward.size();
  }
  for (const int work : work_of_layer_) saved += works_[work].saved.size();
  builder_.ReserveKernels(2 * kernels);
  builder_.ReserveBuffers(saved + 4 * model().tensors.size() + 64);
  entries_.reserve(works_.size());
  for (std::size_t w = 0; w < works_.size(); ++w) AddWork(works_[w], sample[w]);
  AddLayers();
  AddTensors();
}

// `sample`: the first layer that does it; null if none does.
void TrainingStep::AddWork(const model::LayerWork& work, const model::Layer* sample) {
  // A compiled block's kernels are launched by one call; a layer list's times hold all there is.
  const bool eager = !plan().training.compile;
  const auto add_kernels = [&](const auto& operators, Issuer issuer) {
    const Index first = builder_.kernels();
    for (const auto& op : operators) {
      const Index kernel = builder_.AddKernel(op.kernel);
      if (eager && op.kernel.kind != KernelKind::kGiven) builder_.SetIssuer(kernel, issuer);
    }
    return Entries(first, builder_.kernels());
  };
  Work& entries = entries_.emplace_back();
  entries.forward = add_kernels(work.forward, Issuer::kModule);
  entries.recompute = add_kernels(work.recompute, Issuer::kModule);
  entries.backward = add_kernels(work.backward, Issuer::kAutograd);

  const Index name = builder_.AddText(sample != nullptr ? sample->name : "unused");
  const Index first_recomputed = builder_.buffers();
  for (const model::Activation& activation : work.recomputed) {
    builder_.AddBuffer(builder_.Named(name, "/" + activation.name + " (recomputed)"),
                       activation.bytes, Category::kActivation);
  }
  entries.recomputed = Entries(first_recomputed, builder_.buffers());
  // Blocks come one after another with the same tensors, whose memory is used again and again
  // between the block's begin and its end: one piece stands for it. The tensors of a layer that
  // comes once are handed out one by one, and what is between them is lost in pieces.
  const bool once = sample != nullptr && sample->kind != model::LayerKind::kBlock;
  const auto add_transient = [&](const char* part, Bytes all, const std::vector<Bytes>& tensors) {
    const Index first = builder_.buffers();
    const program::NameParts parts = builder_.Named(name, part);
    if (once) {
      for (const Bytes bytes : tensors) builder_.AddBuffer(parts, bytes, Category::kActivation);
    } else if (all > Bytes(0)) {
      builder_.AddBuffer(parts, all, Category::kActivation);
    }
    return Entries(first, builder_.buffers());
  };
  entries.forward_transient =
      add_transient("/forward temporaries", work.forward_transient, work.forward_temporaries);
  entries.backward_transient =
      add_transient("/backward temporaries", work.backward_transient, work.backward_temporaries);
}

void TrainingStep::AddLayers() {
  // By work: of its first tensor; the others' follow.
  std::vector<Index> saved_texts;
  saved_texts.reserve(works_.size());
  for (const model::LayerWork& work : works_) {
    saved_texts.push_back(builder_.texts());
    for (const model::Activation& activation : work.saved) {
      builder_.AddText("/" + activation.name);
    }
  }
  layers_of_tensor_.assign(model().tensors.size(), 0);
  const std::size_t layers = model().layers.size();
  saved_.resize(static_cast<std::size_t>(slots_) * layers, Entries(0, 0));
  for (std::size_t index = 0; index < model().layers.size(); ++index) {
    const model::Layer& layer = model().layers[index];
    labels_.push_back(builder_.AddLabel(layer.name));
    const Index name = builder_.AddText(layer.name);
    for (int slot = 0; slot < slots_; ++slot) {
      const Index first = builder_.buffers();
      Index text = saved_texts[work_of_layer_[index]];
      for (const model::Activation& activation : works_[work_of_layer_[index]].saved) {
        builder_.AddBuffer({.first = name, .second = text++}, activation.bytes,
                           Category::kActivation);
      }
      saved_[static_cast<std::size_t>(slot) * layers + index] = Entries(first, builder_.buffers());
    }
    if (plan().training.activation_offload && layer.kind == model::LayerKind::kBlock) {
      offload_.AddBlock(static_cast<int>(index), saved_[index]);
    }
    for (const int tensor : layer.tensors) ++layers_of_tensor_[tensor];
  }
}

void TrainingStep::AddTensors() {
  first_elements_.reserve(model().tensors.size());
  tied_contribution_.reserve(model().tensors.size());
  std::int64_t elements = 0;
  std::size_t whole = 0;
  for (std::size_t t = 0; t < model().tensors.size(); ++t) {
    const model::Tensor& tensor = model().tensors[t];
    const auto in_whole = static_cast<std::size_t>(stage_.whole_tensor(static_cast<int>(t)));
    for (; whole < in_whole; ++whole) elements += stage_.whole_model().tensors[whole].elements;
    first_elements_.push_back(elements);
    tied_contribution_.push_back(
        layers_of_tensor_[t] == 1
            ? program::kNone
            : builder_.AddBuffer(builder_.Named(tensor.name, ".grad (tied)"),
                                 BytesOf(tensor.elements, plan().training.precision),
                                 Category::kGradient));
  }
}

void TrainingStep::FindReads(Technique& technique) {
  const auto append = [&](Entries buffers) {
    for (const Index buffer : buffers) reads_.push_back(builder_.ReadsAll(buffer));
  };
  std::size_t expected = 2 * model().tensors.size();
  for (const int work : work_of_layer_) {
    expected += works_[work].saved.size() + works_[work].recomputed.size();
  }
  reads_.reserve(expected);
  for (std::size_t layer = 0; layer < work_of_layer_.size(); ++layer) {
    LayerReads& reads = layer_reads_.emplace_back();
    reads.first = reads_.size();
    technique.AppendParameterReads(static_cast<int>(layer), reads_);
    reads.parameters = reads_.size();
    for (int slot = 0; slot < slots_; ++slot) {
      append(saved_[static_cast<std::size_t>(slot) * work_of_layer_.size() + layer]);
      append(entries_[work_of_layer_[layer]].recomputed);
      if (slot == 0) reads.activations = reads_.size() - reads.parameters;
    }
  }
}

program::Program TrainingStep::Write(Technique& technique) {
  builder_.SetOptimizer(plan().training.optimizer == plan::Optimizer::kAdamW);
  technique.WritePrologue();
  offload_.WritePrologue();
  inputs_ = AddInputs();
  messages_.WritePrologue(inputs_);
  values_.WritePrologue(slots_);
  if (plan().training.host_waits == plan::HostWaits::kPhase) {
    for (StreamId stream = 0; stream < builder_.streams(); ++stream) {
      drained_.push_back(builder_.AddEvent({.first = builder_.AddNumbered("drained ", stream)}));
    }
  } else if (plan().training.host_waits != plan::HostWaits::kNever) {
    drained_.push_back(builder_.AddEvent("read by the host"));
  }
  host_work_.WritePrologue(slots_);  // its streams are the host's
  FindReads(technique);
  Reserve();
  builder_.BeginStep();
  builder_.SetPhase(Phase::kForward);
  technique.BeginStep();
  for (pass_ = 0; pass_ < stage_.passes().size(); ++pass_) WritePass(technique);
  WaitOnHost(plan::HostWaits::kUpdate);
  builder_.SetPhase(Phase::kOptimizer);
  builder_.SetLabel(builder_.AddLabel("optimizer"));
  technique.WriteUpdate();
  host_work_.EndStep();
  builder_.SetLabel(program::kNone);
  WaitOnHost(plan::HostWaits::kStep);
  return builder_.Take();
}

void TrainingStep::WritePass(Technique& technique) {
  const parallel::Action& pass = stage_.passes()[pass_];
  const int layers = static_cast<int>(model().layers.size());
  micro_batch_ = pass.micro_batch;
  builder_.SetMicroBatch(micro_batch_);
  if (pass.task == parallel::Task::kForward) {
    builder_.SetPhase(Phase::kForward);
    messages_.BeforePass(pass_);
    host_work_.BeginMicroBatch(micro_batch_, slot());
    technique.BeginForward();
    for (int layer = 0; layer < layers; ++layer) WriteForward(technique, layer);
    builder_.SetLabel(program::kNone);
    messages_.AfterPass(pass_);
    WaitOnHost(plan::HostWaits::kPhase);
    return;
  }
  STEPCAST_CHECK(pass.task == parallel::Task::kBackward, "backward of inputs and weights together");
  builder_.SetPhase(Phase::kBackward);
  messages_.BeforePass(pass_);
  missing_ = layers_of_tensor_;
  for (int layer = layers - 1; layer >= 0; --layer) WriteBackward(technique, layer);
  builder_.SetLabel(program::kNone);
  messages_.AfterPass(pass_);
  technique.EndBackward();
  WaitOnHost(plan::HostWaits::kMicroBatch);
  host_work_.EndMicroBatch(slot());
}

std::vector<Index> TrainingStep::AddInputs() {
  std::vector<Index> inputs;
  if (!messages_.receives()) return inputs;
  const int kept = works_[work_of(0)].input;
  keeps_inputs_ = kept != model::LayerWork::kNone;
  for (int slot = 0; slot < slots_; ++slot) {
    inputs.push_back(keeps_inputs_
                         ? Saved(slot, 0)[kept]
                         : builder_.AddBuffer("activations received", messages_.stage().received,
                                              Category::kActivation));
  }
  return inputs;
}

void TrainingStep::BeginForwardKernels() {
  messages_.AwaitInput(pass_);
  const Index received =
      inputs_.empty() ? program::kNone : inputs_[static_cast<std::size_t>(slot())];
  if (received != program::kNone) builder_.Use(builder_.ReadsAll(received));
  values_.BeginForward(slot(), received);
}

void TrainingStep::EndForwardKernels() {
  const Index sent = messages_.AllocateOutput(pass_);
  if (sent != program::kNone) builder_.Use(builder_.WritesAll(sent));
  values_.EndForward(slot(), sent);
}

void TrainingStep::BeginBackwardKernels() {
  messages_.AwaitInput(pass_);
  const Index received = messages_.ReceivedGradient(pass_);
  if (received != program::kNone) builder_.Use(builder_.ReadsAll(received));
  values_.BeginBackward(slot(), received);
}

void TrainingStep::EndBackwardKernels() {
  const Index sent = messages_.AllocateOutput(pass_);
  if (sent != program::kNone) builder_.Use(builder_.WritesAll(sent));
  values_.EndBackward(sent);
}

void TrainingStep::Reserve() {
  std::size_t instructions = 0, uses = 0;
  for (std::size_t layer = 0; layer < work_of_layer_.size(); ++layer) {
    const model::LayerWork& work = works_[work_of_layer_[layer]];
    const LayerReads& reads = layer_reads_[layer];
    const std::size_t kernels = work.forward.size() + work.recompute.size() + work.backward.size();
    const std::size_t activations = work.saved.size() + work.recomputed.size();
    const std::size_t parameters = reads.parameters - reads.first;
    instructions += kernels + 2 * activations + 4 * parameters + 24;
    uses += 4 * (parameters + reads.activations) + 8 * parameters + 16;
  }
  const auto micro_batches = static_cast<std::size_t>(plan().training.gradient_accumulation);
  const std::size_t tensors = model().tensors.size();
  builder_.ReserveStep(micro_batches * instructions + 12 * tensors + 64);
  builder_.ReserveUses(micro_batches * uses + 8 * tensors + 64);
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
                                bool add) {
  if (!builder_.describes_data_flow()) return;
  builder_.Use(Reads(source.buffer, source.offset, BytesOf(elements, source.type)));
  const program::Elements seed = values_.seed();
  if (seed.buffer != program::kNone) builder_.Use(Reads(seed.buffer, seed.offset, Bytes(4)));
  builder_.With({.kind = program::EffectKind::kGradient,
                 .add = add,
                 .target = target,
                 .source = source,
                 .states = seed,
                 .elements = elements,
                 .first_element = first_element(tensor) + first,
                 .scale = 1.0 / static_cast<double>(plan().training.gradient_accumulation)});
}

void TrainingStep::UseReads(std::size_t first, std::size_t end) {
  builder_.Use(std::span(reads_).subspan(first, end - first));
}

// The first and the last kernel name the parameters: with stream order in between, that is enough
// for the validator to see every hazard of the layer.
void TrainingStep::RunLayer(Technique& technique, Technique::Pass pass, int layer, Entries kernels,
                            const std::vector<model::ForwardOperator>& operators,
                            Entries activations) {
  const LayerReads& reads = layer_reads_[layer];
  const bool forward = pass == Technique::Pass::kForward;
  const bool first = forward && layer == 0;
  const bool last = forward && layer + 1 == static_cast<int>(model().layers.size());
  for (std::size_t i = 0; i < operators.size(); ++i) {
    technique.BeforeOperator(pass, layer, i);
    if (i == 0 || i + 1 == operators.size()) UseReads(reads.first, reads.parameters);
    if (first && i == 0) BeginForwardKernels();
    if (last && i + 1 == operators.size()) EndForwardKernels();
    for (const int created : operators[i].creates) {
      // It is there already, received from the stage before.
      if (first && keeps_inputs_ && created == works_[work_of(layer)].input) continue;
      builder_.Allocate(compute(), activations[created]);
      builder_.Use(builder_.WritesAll(activations[created]));
    }
    builder_.Run(compute(), kernels[i]);
    technique.AfterOperator(pass, layer, i);
  }
}

void TrainingStep::WriteForward(Technique& technique, int layer) {
  const model::LayerWork& work = works_[work_of(layer)];
  const Work& entries = entries_[work_of(layer)];
  builder_.SetLabel(labels_[layer]);
  technique.BeforeForward(layer);
  for (const Index buffer : entries.forward_transient) builder_.Allocate(compute(), buffer);
  RunLayer(technique, Technique::Pass::kForward, layer, entries.forward, work.forward,
           Saved(slot(), layer));
  for (const Index buffer : entries.forward_transient) builder_.Release(buffer);
  if (layer == 0 && !inputs_.empty() && !keeps_inputs_) {
    builder_.Release(inputs_[static_cast<std::size_t>(slot())]);
  }
  offload_.AfterForward(layer);
  technique.AfterForward(layer);
}

void TrainingStep::WriteBackward(Technique& technique, int layer) {
  const std::vector<int>& tensors = model().layers[layer].tensors;
  const LayerReads& reads = layer_reads_[layer];
  const model::LayerWork& work = works_[work_of(layer)];
  const Work& entries = entries_[work_of(layer)];
  builder_.SetLabel(labels_[layer]);
  technique.BeforeBackward(layer);
  offload_.BeforeBackward(layer);
  RunLayer(technique, Technique::Pass::kRecompute, layer, entries.recompute, work.recompute,
           entries.recomputed);
  for (const Index buffer : entries.backward_transient) builder_.Allocate(compute(), buffer);

  // What this layer contributes to a tied tensor, until it is added to the others'.
  contributions_.clear();
  for (const int tensor : tensors) {
    if (missing_[tensor] == layers_of_tensor_[tensor]) continue;
    contributions_.push_back(tied_contribution_[tensor]);
    builder_.Allocate(compute(), contributions_.back());
  }
  for (std::size_t i = 0; i < work.backward.size(); ++i) {
    technique.BeforeOperator(Technique::Pass::kBackward, layer, i);
    if (i == 0 || i + 1 == work.backward.size()) {
      UseReads(reads.first, reads.parameters);
      const std::size_t kept =
          reads.parameters + static_cast<std::size_t>(slot()) * reads.activations;
      UseReads(kept, kept + reads.activations);
    }
    if (i == 0 && layer + 1 == static_cast<int>(model().layers.size())) BeginBackwardKernels();
    if (i + 1 == work.backward.size() && layer == 0) EndBackwardKernels();
    ready_.clear();
    for (const int position : work.backward[i].gradients) {
      const int tensor = tensors[position];
      technique.WriteGradient(layer, tensor);
      if (--missing_[tensor] == 0) ready_.push_back(tensor);
    }
    builder_.Run(compute(), entries.backward[i]);
    // Reverse registration order, as in GradientReadyOrder.
    if (ready_.size() > 1) std::sort(ready_.begin(), ready_.end(), std::greater<>());
    for (const int tensor : ready_) technique.GradientReady(tensor);
    technique.AfterOperator(Technique::Pass::kBackward, layer, i);
  }
  for (const Index buffer : contributions_) builder_.Release(buffer);
  for (const Index buffer : entries.backward_transient) builder_.Release(buffer);
  for (const Index buffer : entries.recomputed) builder_.Release(buffer);
  for (const Index buffer : Saved(slot(), layer)) builder_.Release(buffer);
  if (layer + 1 == static_cast<int>(model().layers.size())) {
    messages_.ReleaseReceivedGradient(pass_);
  }
  technique.AfterBackward(layer);
}

}  // namespace stepcast::lowering
