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

// Slots of the passes' activations, by chunk. Where a receive is posted a pass ahead, its slot is
// taken then.
std::vector<int> SlotsOf(const PipelineStage& stage, bool ahead) {
  const std::vector<parallel::Action>& passes = stage.passes();
  std::vector<int> slots(passes.size(), -1);
  struct OfChunk {
    std::vector<int> slot_of;  // [micro-batch]
    std::vector<bool> taken;   // [slot]
  };
  std::vector<OfChunk> chunks(stage.chunks().size());
  const auto take = [&](std::size_t pass) {
    if (pass >= passes.size() || slots[pass] >= 0) return;
    auto& [slot_of, taken] = chunks[stage.chunk_of(passes[pass])];
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
    chunks[stage.chunk_of(passes[pass])].taken[static_cast<std::size_t>(slots[pass])] = false;
  }
  return slots;
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
      .passes = stage.passes(),
      .slots = SlotsOf(stage, stage.stages() > 1 && style == MessageStyle::kOverlapped)};
  for (const parallel::Action& pass : stage.passes()) {
    messages.chunk_of.push_back(stage.chunk_of(pass));
  }
  // What a chunk hands on is what its last layer makes.
  const auto output = [&](const model::Layer& layer) {
    return works[static_cast<std::size_t>(layer.work)].output;
  };
  for (const PipelineStage::Chunk& chunk : stage.chunks()) {
    StageMessages::Stage::Chunk& own =
        messages.chunks.emplace_back(StageMessages::Stage::Chunk{chunk.first, chunk.last});
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
  Work& entries = entries_.emplace_back();
  entries.forward = AddOperations(work.forward, Issuer::kModule);
  entries.recompute = AddOperations(work.recompute, Issuer::kModule);
  entries.backward = AddOperations(work.backward, Issuer::kAutograd);

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
                       own.waits.empty();
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
  }
}

program::Program TrainingStep::Write(Technique& technique) {
  builder_.SetOptimizer(plan().training.optimizer == plan::Optimizer::kAdamW);
  technique.WritePrologue();
  offload_.WritePrologue();
  inputs_ = AddInputs();
  messages_.WritePrologue(inputs_);
  values_.WritePrologue(slots_ * static_cast<int>(stage_.chunks().size()), communicates_);
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
  const bool first_chunk = stage_.chunk_of(pass) == 0;
  if (pass.task == parallel::Task::kForward) {
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
  STEPCAST_CHECK(pass.task == parallel::Task::kBackward, "backward of inputs and weights together");
  builder_.SetPhase(Phase::kBackward);
  messages_.BeforePass(pass_);
  turned_back_ = false;
  for (int layer = chunk().end_layer - 1; layer >= chunk().first_layer; --layer) {
    for (const int tensor : model().layers[layer].tensors) {
      missing_[tensor] = layers_of_tensor_[tensor];
    }
  }
  for (int layer = chunk().end_layer - 1; layer >= chunk().first_layer; --layer) {
    WriteBackward(technique, layer);
  }
  builder_.SetLabel(program::kNone);
  messages_.AfterPass(pass_);
  if (!first_chunk) return;
  technique.EndBackward();
  WaitOnHost(plan::HostWaits::kMicroBatch);
  host_work_.EndMicroBatch(slot());
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
  return inputs_[stage_.chunk_of(stage_.passes()[pass_])][static_cast<std::size_t>(slot())];
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
    case model::ValueUse::Table::kHandedBack:
      break;
  }
  const bool from_stage = layer + 1 == chunk().end_layer;
  return from_stage ? messages_.ReceivedGradient(pass_) : entries.handed_back[layer % 2];
}

// The first and the last kernel name the parameters and, in backward, what has been kept: with
// stream order in between, that is enough for the validator to see every hazard of the layer.
void TrainingStep::RunLayer(Technique& technique, Technique::Pass pass, int layer,
                            const OperationEntries& entries,
                            const std::vector<model::Operation>& operations,
                            const Entries& activations) {
  const LayerReads& reads = layer_reads_[layer];
  const bool forward = pass == Technique::Pass::kForward;
  const bool backward = pass == Technique::Pass::kBackward;
  const bool begins =
      forward ? layer == chunk().first_layer : backward && layer + 1 == chunk().end_layer;
  const bool ends =
      forward ? layer + 1 == chunk().end_layer : backward && layer == chunk().first_layer;
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
    }
    if (!forward && !turned_back_) {
      turned_back_ = true;
      values_.TurnBack(chunk().number, word());
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
  const Index buffer = entries_[work_of(layer)].handed_back[layer % 2];
  if (buffer == program::kNone) return;
  builder_.Allocate(compute(), buffer);
  builder_.Use(builder_.WritesAll(buffer));
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
  const std::vector<int>& tensors = model().layers[layer].tensors;
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
  RunLayer(technique, Technique::Pass::kBackward, layer, entries.backward, work.backward,
           entries.recomputed);
  for (const Index buffer : contributions_) builder_.Release(buffer);
  for (const Index buffer : entries.backward_transient) builder_.Release(buffer);
  const bool from_stage = layer + 1 == chunk().end_layer;
  const Index handed_back = entries.handed_back[layer % 2];
  if (handed_back != program::kNone && !from_stage) builder_.Release(handed_back);
  for (const Index buffer : entries.recomputed) builder_.Release(buffer);
  for (const Index buffer : Saved(slot(), layer)) builder_.Release(buffer);
  if (from_stage) messages_.ReleaseReceivedGradient(pass_);
  technique.AfterBackward(layer);
}

}  // namespace stepcast::lowering
