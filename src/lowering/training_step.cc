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

// Numbers of what lives from one pass to another, none of which is given twice at a time.
class Slots {
 public:
  int Take() {
    const auto free = std::find(taken_.begin(), taken_.end(), false);
    const auto slot = static_cast<int>(free - taken_.begin());
    if (free == taken_.end()) taken_.push_back(false);
    taken_[static_cast<std::size_t>(slot)] = true;
    return slot;
  }
  void Free(int slot) { taken_[static_cast<std::size_t>(slot)] = false; }

 private:
  std::vector<bool> taken_;
};

// Which pass of the stage takes what each pass makes.
std::vector<std::size_t> TakersOf(const PipelineStage& stage) {
  const std::vector<parallel::Action>& passes = stage.passes();
  std::vector<std::size_t> takers(passes.size(), StageMessages::Stage::kNoPass);
  for (const PipelineStage::Chunk& chunk : stage.chunks()) {
    if (chunk.last || chunk.behind != stage.stage()) continue;
    for (std::size_t pass = 0; pass < passes.size(); ++pass) {
      const bool forward = passes[pass].task == parallel::Task::kForward;
      if (passes[pass].task == parallel::Task::kBackwardWeight) continue;
      if (passes[pass].chunk != chunk.number + (forward ? 0 : 1)) continue;
      const auto taker = std::find_if(passes.begin(), passes.end(), [&](const auto& other) {
        return other.micro_batch == passes[pass].micro_batch &&
               other.chunk == chunk.number + (forward ? 1 : 0) &&
               other.task != parallel::Task::kBackwardWeight &&
               (other.task == parallel::Task::kForward) == forward;
      });
      takers[pass] = static_cast<std::size_t>(taker - passes.begin());
    }
  }
  return takers;
}

// Slots of the passes' activations, by chunk, and of the gradients that backwards receive. Where a
// receive is posted a pass ahead, its slot is taken then; what another chunk of the stage makes,
// when it is made.
void FindSlots(const PipelineStage& stage, bool ahead, StageMessages::Stage& messages) {
  const std::vector<parallel::Action>& passes = stage.passes();
  messages.slots.assign(passes.size(), -1);
  messages.gradient_slots.assign(passes.size(), -1);
  struct OfChunk {
    std::vector<int> slot_of, gradient_of;  // [micro-batch]
    Slots activations, gradients;
  };
  std::vector<OfChunk> chunks(stage.chunks().size());
  const auto take = [&](std::size_t pass) {
    if (pass >= passes.size() || messages.slots[pass] >= 0) return;
    OfChunk& chunk = chunks[messages.chunk_of[pass]];
    const auto micro_batch = static_cast<std::size_t>(passes[pass].micro_batch);
    for (std::vector<int>* of : {&chunk.slot_of, &chunk.gradient_of}) {
      of->resize(std::max(of->size(), micro_batch + 1), -1);
    }
    if (passes[pass].task == parallel::Task::kForward) {
      chunk.slot_of[micro_batch] = chunk.activations.Take();
    } else {
      int& gradient = chunk.gradient_of[micro_batch];
      if (passes[pass].task != parallel::Task::kBackwardWeight) gradient = chunk.gradients.Take();
      messages.gradient_slots[pass] = gradient;
    }
    messages.slots[pass] = chunk.slot_of[micro_batch];
  };
  for (std::size_t pass = 0; pass < passes.size(); ++pass) {
    take(pass);
    if (ahead) take(pass + 1);
    if (messages.takers[pass] != StageMessages::Stage::kNoPass) take(messages.takers[pass]);
    OfChunk& chunk = chunks[messages.chunk_of[pass]];
    if (!parallel::EndsBackward(passes[pass].task)) continue;
    chunk.activations.Free(messages.slots[pass]);
    chunk.gradients.Free(messages.gradient_slots[pass]);
  }
}

bool KeptForWeights(const model::LayerWork& work, std::size_t saved) {
  return std::binary_search(work.saved_for_weights.begin(), work.saved_for_weights.end(),
                            static_cast<int>(saved));
}

constexpr auto kTensorAxis = static_cast<std::size_t>(parallel::Axis::kTensor);

// Where stages have several chunks, messages run beside passes (Megatron-LM's overlap_p2p_comm).
MessageStyle StyleOf(const plan::Plan& plan) {
  const bool blocks = plan::TraitsOf(plan.data_parallel.framework).blocking_messages &&
                      plan.parallelism.virtual_stages == 1;
  return blocks ? MessageStyle::kBlocking : MessageStyle::kOverlapped;
}

StageMessages::Stage MessagesOf(const scenario::Scenario& scenario, const PipelineStage& stage,
                                const std::vector<model::LayerWork>& works) {
  const MessageStyle style = StyleOf(scenario.plan);
  StageMessages::Stage messages{
      .stage = stage.stage(),
      .stages = stage.stages(),
      .pipeline = plan::GridOf(scenario.plan).Layout(parallel::Axis::kPipeline),
      .style = style,
      .type = plan::ComputeType(scenario.plan.training.precision),
      .passes = stage.passes()};
  for (const parallel::Action& pass : stage.passes()) {
    messages.chunk_of.push_back(stage.chunk_of(pass));
  }
  messages.takers = TakersOf(stage);
  FindSlots(stage, stage.stages() > 1 && style == MessageStyle::kOverlapped, messages);
  // What a chunk hands on is what its last layer makes.
  const auto output = [&](const model::Layer& layer) {
    return works[static_cast<std::size_t>(layer.work)].output;
  };
  for (const PipelineStage::Chunk& chunk : stage.chunks()) {
    StageMessages::Stage::Chunk& own = messages.chunks.emplace_back(StageMessages::Stage::Chunk{
        .first = chunk.first, .last = chunk.last, .before = chunk.before, .behind = chunk.behind});
    if (!chunk.first) own.received = output(stage.layer_before(chunk));
    const auto last = static_cast<std::size_t>(chunk.end_layer) - 1;
    if (!chunk.last) own.sent = output(stage.model().layers[last]);
  }
  return messages;
}

}  // namespace

TrainingStep::TrainingStep(const scenario::Scenario& scenario, const LowerOptions& options)
    : scenario_(scenario),
      options_(options),
      stage_(scenario, plan::StageOf(scenario.plan, options.rank)),
      builder_(options),
      host_work_(scenario, stage_, builder_),
      own_works_(options.works != nullptr
                     ? std::vector<model::LayerWork>()
                     : model::BuildWork(*scenario.model, plan::WorkOptionsOf(scenario.plan))),
      works_(options.works != nullptr ? *options.works : own_works_),
      work_of_layer_(model::WorkOfLayers(stage_.model(), plan::WorkOptionsOf(scenario.plan))),
      offload_(builder_),
      groups_(scenario.plan, program::Program::kComputeStream, builder_),
      messages_(MessagesOf(scenario, stage_, works_), builder_),
      values_({.chunks = stage_.chunks_of_all(),
               .batch_part = plan::BatchPartOf(scenario.plan, options.rank),
               .one_word = !plan::AddsUpPartsOfTokens(scenario.plan)},
              builder_) {
  missing_.assign(model().tensors.size(), 0);
  contributed_.assign(model().tensors.size(), false);
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
    kernels += work.backward_input.operations.size() + work.backward_weight.operations.size();
  }
  for (const int work : work_of_layer_) saved += works_[work].saved.size();
  builder_.ReserveKernels(2 * kernels);
  builder_.ReserveBuffers(saved + 4 * model().tensors.size() + 64);
  entries_.reserve(works_.size());
  for (std::size_t w = 0; w < works_.size(); ++w) AddWork(works_[w], sample[w]);
  AddLayers();
  AddTensors();
  FindLastPasses();
}

// `sample`: the first layer that does it; null if none does.
void TrainingStep::AddWork(const model::LayerWork& work, const model::Layer* sample) {
  Work& entries = entries_.emplace_back();
  entries.forward = AddOperations(work.forward, Issuer::kModule);
  entries.recompute = AddOperations(work.recompute, Issuer::kModule);
  entries.backward = AddOperations(work.backward, Issuer::kAutograd);
  entries.backward_input = AddOperations(work.backward_input.operations, Issuer::kAutograd);
  entries.backward_weight = AddOperations(work.backward_weight.operations, Issuer::kAutograd);

  const Index name = builder_.AddText(sample != nullptr ? sample->name : "unused");
  const Index first_recomputed = builder_.buffers();
  for (const model::Activation& activation : work.recomputed) {
    builder_.AddBuffer(builder_.Named(name, "/" + activation.name + " (recomputed)"),
                       activation.bytes, Category::kActivation);
  }
  entries.recomputed = Entries(first_recomputed, builder_.buffers());
  const Index first_communicated = builder_.buffers();
  for (const model::Activation& value : work.communicated) {
    builder_.AddBuffer(builder_.Named(name, "/" + value.name + " (communicated)"), value.bytes,
                       Category::kActivation);
  }
  entries.communicated = Entries(first_communicated, builder_.buffers());
  if (work.handed_back > Bytes()) {
    for (Index& buffer : entries.handed_back) {
      buffer = builder_.AddBuffer(builder_.Named(name, "/gradient of the output"), work.handed_back,
                                  Category::kActivation);
    }
  }
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
  const auto add_part = [&](const model::LayerWork::BackwardPart& part) {
    return add_transient("/backward temporaries", part.transient, part.temporaries);
  };
  entries.input_transient = add_part(work.backward_input);
  entries.weight_transient = add_part(work.backward_weight);
}

TrainingStep::OperationEntries TrainingStep::AddOperations(
    const std::vector<model::Operation>& operations, Issuer issuer) {
  // A compiled block's kernels are launched by one call; a layer list's times hold all there is.
  const bool eager = !plan().training.compile;
  OperationEntries entries;
  entries.kernels.reserve(operations.size());
  entries.first_kernel = operations.size();
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const model::Operation& operation = operations[i];
    if (operation.group) {
      communicates_ = true;
      entries.groups.resize(operations.size());
      entries.groups[i] = groups_.Add(*operation.group);
      entries.kernels.push_back(program::kNone);
      entries.unfinished.push_back(static_cast<int>(i));
      continue;
    }
    const Index kernel = builder_.AddKernel(operation.kernel);
    if (eager && operation.kernel.kind != KernelKind::kGiven) builder_.SetIssuer(kernel, issuer);
    entries.kernels.push_back(kernel);
    entries.first_kernel = std::min(entries.first_kernel, i);
    entries.last_kernel = i;
    for (const int waited : operation.waits) {
      std::erase_if(entries.unfinished, [&](int group) {
        return group <= waited && entries.groups[group].stream == entries.groups[waited].stream;
      });
    }
  }
  entries.unreleased = model::LeftToTheNextKernel(operations);
  entries.plain.resize(operations.size());
  for (std::size_t i = entries.first_kernel + 1; i < entries.last_kernel; ++i) {
    const model::Operation& own = operations[i];
    entries.plain[i] = !own.group && own.creates.empty() && own.gradients.empty() &&
                       own.uses.empty() && own.begins.empty() && own.ends.empty() &&
                       own.waits.empty() && own.defers.empty();
  }
  return entries;
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
  deferred_.resize(saved_.size(), Entries(0, 0));
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
      const Index first_deferred = builder_.buffers();
      for (const model::Activation& gradient : works_[work_of_layer_[index]].deferred) {
        builder_.AddBuffer(builder_.Named(name, "/" + gradient.name), gradient.bytes,
                           Category::kActivation);
      }
      deferred_[static_cast<std::size_t>(slot) * layers + index] =
          Entries(first_deferred, builder_.buffers());
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
  const std::int64_t elements_of_others =
      plan::GridOf(plan()).At(rank())[kTensorAxis] * stage_.whole_model().parameter_count();
  for (std::size_t t = 0; t < model().tensors.size(); ++t) {
    const model::Tensor& tensor = model().tensors[t];
    const auto in_whole = static_cast<std::size_t>(stage_.whole_tensor(static_cast<int>(t)));
    for (; whole < in_whole; ++whole) elements += stage_.whole_model().tensors[whole].elements;
    // The other ranks of a tensor-parallel group have as many elements of their own; those of whole
    // tensors are the first one's on all.
    const bool divided = tensor.division != model::Division::kWhole;
    first_elements_.push_back(elements + (divided ? elements_of_others : 0));
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
    reads.weights = reads_.size();
    if (!plan().parallelism.splits_backward) continue;
    for (int slot = 0; slot < slots_; ++slot) {
      const Entries& saved = Saved(slot, static_cast<int>(layer));
      for (const int kept : works_[work_of_layer_[layer]].saved_for_weights) {
        reads_.push_back(builder_.ReadsAll(saved[kept]));
      }
      append(DeferredHere(slot, static_cast<int>(layer)));
      if (slot == 0) reads.left = reads_.size() - reads.weights;
    }
  }
}

void TrainingStep::FindLastPasses() {
  const std::vector<parallel::Action>& passes = stage_.passes();
  last_pass_of_tensor_.assign(model().tensors.size(), 0);
  ends_micro_batch_.assign(passes.size(), false);
  std::vector<std::size_t> last_of_chunk(stage_.chunks().size());
  std::vector<std::size_t> last_of_micro_batch;
  for (std::size_t pass = 0; pass < passes.size(); ++pass) {
    if (!parallel::EndsBackward(passes[pass].task)) continue;
    last_of_chunk[messages_.stage().chunk_of[pass]] = pass;
    const auto micro_batch = static_cast<std::size_t>(passes[pass].micro_batch);
    last_of_micro_batch.resize(std::max(last_of_micro_batch.size(), micro_batch + 1));
    last_of_micro_batch[micro_batch] = pass;
  }
  for (const std::size_t pass : last_of_micro_batch) ends_micro_batch_[pass] = true;
  for (std::size_t number = 0; number < stage_.chunks().size(); ++number) {
    const PipelineStage::Chunk& chunk = stage_.chunks()[number];
    for (int layer = chunk.first_layer; layer < chunk.end_layer; ++layer) {
      for (const int tensor : model().layers[layer].tensors) {
        std::size_t& last = last_pass_of_tensor_[tensor];
        last = std::max(last, last_of_chunk[number]);
      }
    }
  }
}

program::Program TrainingStep::Write(Technique& technique) {
  builder_.SetOptimizer(plan().training.optimizer == plan::Optimizer::kAdamW);
  technique.WritePrologue();
  offload_.WritePrologue();
  inputs_ = AddInputs();
  messages_.WritePrologue(inputs_);
  values_.WritePrologue(slots_ * static_cast<int>(stage_.chunks().size()), communicates_,
                        plan().parallelism.splits_backward);
  if (plan().training.host_waits == plan::HostWaits::kPhase) {
    for (StreamId stream = 0; stream < builder_.streams(); ++stream) {
      if (stream != compute() && messages_.CarriesBeside(stream)) continue;
      drained_.emplace_back(stream,
                            builder_.AddEvent({.first = builder_.AddNumbered("drained ", stream)}));
    }
  } else if (plan().training.host_waits != plan::HostWaits::kNever) {
    drained_.emplace_back(compute(), builder_.AddEvent("read by the host"));
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
  micro_batch_ = pass.micro_batch;
  builder_.SetMicroBatch(micro_batch_);
  // A micro-batch begins and ends with the stage's first chunk.
  const bool first_chunk = chunk_index() == 0;
  if (task() == parallel::Task::kForward) {
    builder_.SetPhase(Phase::kForward);
    messages_.BeforePass(pass_);
    if (first_chunk) {
      host_work_.BeginMicroBatch(micro_batch_, slot());
      technique.BeginForward();
    }
    for (int layer = chunk().first_layer; layer < chunk().end_layer; ++layer) {
      WriteForward(technique, layer);
    }
    builder_.SetLabel(program::kNone);
    messages_.AfterPass(pass_);
    WaitOnHost(plan::HostWaits::kPhase);
    return;
  }
  builder_.SetPhase(Phase::kBackward);
  messages_.BeforePass(pass_);
  turned_back_ = false;
  BeginGradients();
  last_layer_ = chunk().first_layer;
  while (last_layer_ + 1 < chunk().end_layer && BackwardOf(last_layer_).empty()) ++last_layer_;
  for (int layer = chunk().end_layer - 1; layer >= chunk().first_layer; --layer) {
    if (task() == parallel::Task::kBackwardWeight) {
      WriteWeights(technique, layer);
    } else {
      WriteBackward(technique, layer);
    }
  }
  builder_.SetLabel(program::kNone);
  messages_.AfterPass(pass_);
  if (ends_micro_batch_[pass_]) {
    technique.EndBackward();
    WaitOnHost(plan::HostWaits::kMicroBatch);
  }
  if (first_chunk && parallel::EndsBackward(task())) host_work_.EndMicroBatch(slot());
}

// Contributions to come: those of the pass, and one where another chunk of the stage has the
// tensor, too, and its pass of the micro-batch comes later.
void TrainingStep::BeginGradients() {
  for (int layer = chunk().first_layer; layer < chunk().end_layer; ++layer) {
    for (const int tensor : model().layers[layer].tensors) {
      missing_[tensor] = 0;
      contributed_[tensor] = false;
    }
  }
  for (int layer = chunk().first_layer; layer < chunk().end_layer; ++layer) {
    for (const int tensor : model().layers[layer].tensors) ++missing_[tensor];
  }
  if (stage_.chunks().size() == 1) return;
  for (std::size_t later = pass_ + 1; later < stage_.passes().size(); ++later) {
    const parallel::Action& other = stage_.passes()[later];
    const std::size_t number = messages_.stage().chunk_of[later];
    if (other.micro_batch != micro_batch_ || number == chunk_index() ||
        !parallel::EndsBackward(other.task)) {
      continue;
    }
    const PipelineStage::Chunk& of_other = stage_.chunks()[number];
    for (int layer = of_other.first_layer; layer < of_other.end_layer; ++layer) {
      for (const int tensor : model().layers[layer].tensors) {
        if (layers_of_tensor_[tensor] > 1) ++missing_[tensor];
      }
    }
  }
}

const std::vector<model::Operation>& TrainingStep::BackwardOf(int layer) const {
  const model::LayerWork& work = works_[work_of(layer)];
  if (task() == parallel::Task::kBackwardInput) return work.backward_input.operations;
  if (task() == parallel::Task::kBackwardWeight) return work.backward_weight.operations;
  return work.backward;
}

std::vector<std::vector<Index>> TrainingStep::AddInputs() {
  std::vector<std::vector<Index>> inputs;
  for (const PipelineStage::Chunk& chunk : stage_.chunks()) {
    std::vector<Index>& of_slots = inputs.emplace_back();
    if (chunk.first) continue;
    const int kept = works_[work_of(chunk.first_layer)].input;
    for (int slot = 0; slot < slots_; ++slot) {
      of_slots.push_back(
          kept != model::LayerWork::kNone
              ? Saved(slot, chunk.first_layer)[kept]
              : builder_.AddBuffer("activations received",
                                   messages_.stage().chunks[inputs.size() - 1].received,
                                   Category::kActivation));
    }
  }
  return inputs;
}

bool TrainingStep::ReceivesInto(int layer, int activation) const {
  return layer == chunk().first_layer && !chunk().first &&
         activation == works_[work_of(layer)].input;
}

Index TrainingStep::Received() const {
  if (chunk().first) return program::kNone;
  return inputs_[chunk_index()][static_cast<std::size_t>(slot())];
}

void TrainingStep::BeginForward() {
  const Index received = Received();
  if (received != program::kNone) builder_.Use(builder_.ReadsAll(received));
  values_.BeginForward(chunk().number, word(), received);
}

void TrainingStep::EndForward() {
  const Index sent = messages_.AllocateOutput(pass_);
  if (sent != program::kNone) builder_.Use(builder_.WritesAll(sent));
  values_.EndForward(sent);
}

void TrainingStep::BeginBackward() {
  const Index received = messages_.ReceivedGradient(pass_);
  if (received != program::kNone) builder_.Use(builder_.ReadsAll(received));
  values_.BeginBackward(chunk().number, received);
}

void TrainingStep::EndBackward() {
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
  for (const auto& [stream, event] : drained_) builder_.Record(stream, event);
  for (const auto& [stream, event] : drained_) builder_.HostWait(event);
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

Index TrainingStep::BufferOf(const model::ValueUse& use, int layer) const {
  const Work& entries = entries_[work_of(layer)];
  switch (use.table) {
    case model::ValueUse::Table::kSaved:
      return Saved(slot(), layer)[use.index];
    case model::ValueUse::Table::kRecomputed:
      return entries.recomputed[use.index];
    case model::ValueUse::Table::kCommunicated:
      return entries.communicated[use.index];
    case model::ValueUse::Table::kDeferred:
      return Deferred(slot(), layer)[use.index];
    case model::ValueUse::Table::kHandedBack:
      break;
  }
  const bool from_stage = layer + 1 == chunk().end_layer;
  return from_stage ? messages_.ReceivedGradient(pass_) : HandedBack(layer);
}

Index TrainingStep::HandedBack(int layer) const {
  const int work = work_of(layer);
  if (task() != parallel::Task::kBackward && works_[work].defers_gradient_of_output) {
    return Deferred(slot(), layer)[0];
  }
  return entries_[work].handed_back[layer % 2];
}

// The first and the last kernel name the parameters and, in backward, what has been kept: with
// stream order in between, that is enough for the validator to see every hazard of the layer.
void TrainingStep::RunLayer(Technique& technique, Technique::Pass pass, int layer,
                            const OperationEntries& entries,
                            const std::vector<model::Operation>& operations,
                            const Entries& activations) {
  const LayerReads& reads = layer_reads_[layer];
  const bool forward = pass == Technique::Pass::kForward;
  const bool weights = task() == parallel::Task::kBackwardWeight;
  // Of what the next layer handed back, and to the one before.
  const bool backward = pass == Technique::Pass::kBackward && !weights;
  const bool begins =
      forward ? layer == chunk().first_layer : backward && layer + 1 == chunk().end_layer;
  const bool ends = forward ? layer + 1 == chunk().end_layer : backward && layer == last_layer_;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    technique.BeforeOperator(pass, layer, i);
    if (entries.plain[i]) {
      builder_.Run(compute(), entries.kernels[i]);
      technique.AfterOperator(pass, layer, i);
      continue;
    }
    const model::Operation& operation = operations[i];
    if (begins && i == 0) messages_.AwaitInput(pass_);
    for (const int value : operation.begins) {
      builder_.Allocate(compute(), entries_[work_of(layer)].communicated[value]);
    }
    for (const int created : operation.creates) {
      // It is there already, received from the stage before.
      if (forward && ReceivesInto(layer, created)) continue;
      builder_.Allocate(compute(), activations[created]);
      builder_.Use(builder_.WritesAll(activations[created]));
    }
    for (const int deferred : operation.defers) {
      const Index buffer = Deferred(slot(), layer)[deferred];
      builder_.Allocate(compute(), buffer);
      if (!operation.group) builder_.Use(builder_.WritesAll(buffer));
    }
    const Index kernel = entries.kernels[i];
    if (kernel == program::kNone) {
      for (const int waited : operation.waits) {
        builder_.Wait(entries.groups[i].stream, entries.groups[waited].done);
      }
      groups_.Issue(entries.groups[i], BufferOf(operation.group->source, layer),
                    BufferOf(operation.group->target, layer));
      technique.AfterOperator(pass, layer, i);
      continue;
    }
    for (const int waited : operation.waits) builder_.Wait(compute(), entries.groups[waited].done);
    if (i == entries.first_kernel || i == entries.last_kernel) {
      UseReads(reads.first, reads.parameters);
      if (backward) {
        const std::size_t kept =
            reads.parameters + static_cast<std::size_t>(slot()) * reads.activations;
        UseReads(kept, kept + reads.activations);
      }
      if (weights) {
        const std::size_t left = reads.weights + static_cast<std::size_t>(slot()) * reads.left;
        UseReads(left, left + reads.left);
        if (const Index received = ReceivedForWeights(layer); received != program::kNone) {
          builder_.Use(builder_.ReadsAll(received));
        }
      }
    }
    if (!forward && !turned_back_) {
      turned_back_ = true;
      if (weights) {
        values_.ContinueBackward(word());
      } else {
        values_.TurnBack(chunk().number, word());
      }
    }
    if (begins && i == entries.first_kernel) forward ? BeginForward() : BeginBackward();
    for (const auto& [buffer, use] : pending_.buffers) {
      builder_.Use(builder_.ReadsAll(buffer));
      values_.Take(use, buffer);
    }
    for (const model::ValueUse& use : operation.uses) {
      const Index buffer = BufferOf(use, layer);
      builder_.Use(use.write ? builder_.WritesAll(buffer) : builder_.ReadsAll(buffer));
      if (!use.write) values_.Take(use, buffer);
    }
    for (const model::ValueUse& use : operation.uses) {
      if (use.write) values_.Give(use, BufferOf(use, layer));
    }
    if (backward && i == entries.last_kernel) HandBack(layer - 1);
    if (ends && i == entries.last_kernel) forward ? EndForward() : EndBackward();
    RunKernel(technique, layer, operation, kernel);
    for (const int value : operation.ends) {
      builder_.Release(entries_[work_of(layer)].communicated[value]);
    }
    technique.AfterOperator(pass, layer, i);
  }
  for (const int group : entries.unfinished) pending_.events.push_back(entries.groups[group].done);
  for (const model::ValueUse& use : entries.unreleased) {
    pending_.buffers.emplace_back(BufferOf(use, layer), use);
  }
}

void TrainingStep::HandBack(int layer) {
  if (layer < chunk().first_layer) return;
  const Index buffer = HandedBack(layer);
  if (buffer == program::kNone) return;
  builder_.Allocate(compute(), buffer);
  builder_.Use(builder_.WritesAll(buffer));
  if (works_[work_of(layer)].handed_back == Bytes()) return;
  values_.Give({.table = model::ValueUse::Table::kHandedBack,
                .type = plan::ComputeType(plan().training.precision),
                .gathered = true},
               buffer);
}

void TrainingStep::RunKernel(Technique& technique, int layer, const model::Operation& operation,
                             Index kernel) {
  for (const Index event : pending_.events) builder_.Wait(compute(), event);
  ready_.clear();
  for (const int position : operation.gradients) {
    const int tensor = model().layers[layer].tensors[position];
    technique.WriteGradient(layer, tensor);
    contributed_[tensor] = true;
    if (--missing_[tensor] == 0) ready_.push_back(tensor);
  }
  builder_.Run(compute(), kernel);
  for (const auto& [buffer, use] : pending_.buffers) builder_.Release(buffer);
  pending_.events.clear();
  pending_.buffers.clear();
  // Reverse registration order, as in GradientReadyOrder.
  if (ready_.size() > 1) std::sort(ready_.begin(), ready_.end(), std::greater<>());
  for (const int tensor : ready_) technique.GradientReady(tensor);
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
  const bool keeps = work.input != model::LayerWork::kNone;
  if (layer == chunk().first_layer && Received() != program::kNone && !keeps) {
    builder_.Release(Received());
  }
  offload_.AfterForward(layer);
  technique.AfterForward(layer);
}

void TrainingStep::WriteBackward(Technique& technique, int layer) {
  const model::LayerWork& work = works_[work_of(layer)];
  const Work& entries = entries_[work_of(layer)];
  const bool whole = task() == parallel::Task::kBackward;
  const bool from_stage = layer + 1 == chunk().end_layer;
  builder_.SetLabel(labels_[layer]);
  technique.BeforeBackward(layer);
  offload_.BeforeBackward(layer);
  RunLayer(technique, Technique::Pass::kRecompute, layer, entries.recompute, work.recompute,
           entries.recomputed);
  const Entries& transient = whole ? entries.backward_transient : entries.input_transient;
  for (const Index buffer : transient) builder_.Allocate(compute(), buffer);
  if (whole) BeginContributions(layer);
  RunLayer(technique, Technique::Pass::kBackward, layer,
           whole ? entries.backward : entries.backward_input, BackwardOf(layer),
           entries.recomputed);
  if (whole) EndContributions();
  for (const Index buffer : transient) builder_.Release(buffer);
  const bool keeps_gradient = !whole && work.defers_gradient_of_output;
  const Index handed_back = HandedBack(layer);
  if (handed_back != program::kNone && !from_stage && !keeps_gradient) {
    builder_.Release(handed_back);
  }
  for (const Index buffer : entries.recomputed) builder_.Release(buffer);
  const Entries& saved = Saved(slot(), layer);
  for (std::size_t i = 0; i < work.saved.size(); ++i) {
    if (whole || !KeptForWeights(work, i)) builder_.Release(saved[i]);
  }
  if (from_stage && !keeps_gradient) messages_.ReleaseReceivedGradient(pass_);
  technique.AfterBackward(layer);
}

Entries TrainingStep::DeferredHere(int slot, int layer) const {
  const Entries& deferred = Deferred(slot, layer);
  const bool from_outside =
      std::any_of(stage_.chunks().begin(), stage_.chunks().end(),
                  [&](const PipelineStage::Chunk& chunk) { return layer + 1 == chunk.end_layer; });
  const bool first = from_outside && works_[work_of(layer)].defers_gradient_of_output;
  return Entries(*deferred.begin() + (first ? 1 : 0), *deferred.end());
}

Index TrainingStep::ReceivedForWeights(int layer) const {
  const bool from_stage = layer + 1 == chunk().end_layer;
  if (!from_stage || !works_[work_of(layer)].defers_gradient_of_output) return program::kNone;
  return messages_.ReceivedGradient(pass_);
}

void TrainingStep::WriteWeights(Technique& technique, int layer) {
  const model::LayerWork& work = works_[work_of(layer)];
  const Work& entries = entries_[work_of(layer)];
  builder_.SetLabel(labels_[layer]);
  technique.BeforeBackward(layer);
  for (const Index buffer : entries.weight_transient) builder_.Allocate(compute(), buffer);
  BeginContributions(layer);
  RunLayer(technique, Technique::Pass::kBackward, layer, entries.backward_weight,
           work.backward_weight.operations, entries.recomputed);
  EndContributions();
  for (const Index buffer : entries.weight_transient) builder_.Release(buffer);
  for (const Index buffer : DeferredHere(slot(), layer)) builder_.Release(buffer);
  if (ReceivedForWeights(layer) != program::kNone) messages_.ReleaseReceivedGradient(pass_);
  for (const int kept : work.saved_for_weights) builder_.Release(Saved(slot(), layer)[kept]);
  technique.AfterBackward(layer);
}

// What this layer contributes to a tied tensor, until it is added to the others'.
void TrainingStep::BeginContributions(int layer) {
  contributions_.clear();
  for (const int tensor : model().layers[layer].tensors) {
    if (!contributed_[tensor]) continue;
    contributions_.push_back(tied_contribution_[tensor]);
    builder_.Allocate(compute(), contributions_.back());
  }
}

void TrainingStep::EndContributions() {
  for (const Index buffer : contributions_) builder_.Release(buffer);
}

}  // namespace stepcast::lowering
