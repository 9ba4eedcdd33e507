// The program-table entries of layers, tensors and operation lists, made before any pass is
// written.
#include <algorithm>
#include <cstddef>
#include <string>

#include "src/base/check.h"
#include "src/base/kernel.h"
#include "src/lowering/training_step.h"
#include "src/model/stage.h"
#include "src/parallel/axis.h"
#include "src/plan/rank_grid.h"

namespace stepcast::lowering {

using program::Category;

// `sample`: the first layer with this work; null if there is none.
void TrainingStep::AddWork(const model::LayerWork& work, const model::Layer* sample) {
  Work& entries = entries_.emplace_back();
  entries.forward = AddOperations(work.forward, Issuer::kModule);
  entries.recompute = AddOperations(work.recompute, Issuer::kModule);
  entries.backward = AddOperations(work.backward, Issuer::kAutograd);
  entries.backward_input = AddOperations(work.backward_input.operations, Issuer::kAutograd);
  entries.backward_weight = AddOperations(work.backward_weight.operations, Issuer::kAutograd);

  const Index name = builder_.AddText(sample != nullptr ? sample->name : "unused");
  const std::int64_t places = work.continues_checkpoint
                                  ? std::min(plan().training.blocks_per_checkpoint,
                                             static_cast<std::int64_t>(model().layers.size())) -
                                        1
                                  : std::int64_t{1};
  for (std::int64_t place = 0; place < places; ++place) {
    const Index first_recomputed = builder_.buffers();
    for (const model::LayerValue& activation : work.Of(model::Lifetime::kRecomputed)) {
      builder_.AddBuffer(builder_.Named(name, "/" + activation.name + " (recomputed)"),
                         activation.bytes, Category::kActivation);
    }
    entries.recomputed.emplace_back(first_recomputed, builder_.buffers());
  }
  for (const model::LayerValue& value : work.Of(model::Lifetime::kCommunicated)) {
    if (value.registered) {
      entries.communicated.push_back(RegisteredBuffer(value));
      continue;
    }
    entries.communicated.push_back(
        builder_.AddBuffer(builder_.Named(name, "/" + value.name + " (communicated)"), value.bytes,
                           Category::kActivation));
  }
  for (const model::LayerValue& gradient : work.Of(model::Lifetime::kHandedBack)) {
    for (Index& buffer : entries.handed_back) {
      buffer = builder_.AddBuffer(builder_.Named(name, "/" + gradient.name), gradient.bytes,
                                  Category::kActivation);
    }
  }
  // Equal blocks follow each other, and their tensors reuse the same memory between a block's begin
  // and its end: one piece stands for it. The tensors of a layer that comes once are allocated one
  // by one, and the gaps between them are lost.
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

Index TrainingStep::RegisteredBuffer(const model::LayerValue& value) {
  const auto known = std::find_if(registered_.begin(), registered_.end(), [&](const auto& other) {
    return other.first == value.name && builder_.SizeOf(other.second) == value.bytes;
  });
  if (known != registered_.end()) return known->second;
  const Index buffer = builder_.AddBuffer(value.name, value.bytes, Category::kCommunication);
  registered_.emplace_back(value.name, buffer);
  return buffer;
}

TrainingStep::OperationEntries TrainingStep::AddOperations(
    const std::vector<model::Operation>& operations, Issuer issuer) {
  // One call launches the kernels of a compiled block. The times of a layer list include all
  // launches.
  const bool eager = !plan().training.compile;
  OperationEntries entries;
  entries.kernels.reserve(operations.size());
  entries.first_kernel = entries.first_beside = operations.size();
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const model::Operation& operation = operations[i];
    if (operation.host_waits_for != model::Operation::kNoWait) {
      entries.host_events.resize(operations.size(), program::kNone);
      if (counts_at_host_ == program::kNone) {
        counts_at_host_ = builder_.AddBuffer("counts at the host", Bytes(8), Category::kWorkspace);
        read_counts_ = builder_.AddHostTask("read counts", Time());
      }
      entries.host_events[static_cast<std::size_t>(operation.host_waits_for)] =
          builder_.AddEvent("counts at the host");
    }
    if (operation.group) {
      communicates_ = true;
      entries.groups.resize(operations.size());
      entries.groups[i] = groups_.Add(*operation.group);
      entries.kernels.push_back(program::kNone);
      entries.unfinished.push_back(static_cast<int>(i));
      continue;
    }
    const Index kernel = builder_.AddKernel(operation.kernel);
    if (!eager) {
      builder_.SetIssuer(kernel, Issuer::kFramework);
    } else if (operation.kernel.kind != KernelKind::kGiven &&
               operation.kernel.issuer == Issuer::kFramework) {
      builder_.SetIssuer(kernel, issuer);
    }
    entries.kernels.push_back(kernel);
    if (operation.lane == 0) {
      entries.first_kernel = std::min(entries.first_kernel, i);
      entries.last_kernel = i;
    } else {
      AddLane(operation.lane);
      entries.first_beside = std::min(entries.first_beside, i);
    }
    for (const int waited : operation.waits) {
      if (!operations[static_cast<std::size_t>(waited)].group) {
        entries.lane_events.resize(operations.size(), program::kNone);
        entries.lane_events[static_cast<std::size_t>(waited)] = builder_.AddEvent("lanes join");
        continue;
      }
      std::erase_if(entries.unfinished, [&](int group) {
        return group <= waited && entries.groups[group].stream == entries.groups[waited].stream;
      });
    }
  }
  entries.plain_end.resize(operations.size());
  for (std::size_t i = operations.size(); i-- > 0;) {
    const model::Operation& own = operations[i];
    const bool plain =
        i > entries.first_kernel && i < entries.last_kernel && !own.group && own.lane == 0 &&
        entries.LaneEvent(i) == program::kNone && own.gradients.empty() && own.uses.empty() &&
        own.begins.empty() && own.ends.empty() && own.waits.empty() &&
        own.host_waits_for == model::Operation::kNoWait && entries.HostEvent(i) == program::kNone;
    const bool goes_on = plain && entries.plain_end[i + 1] > i + 1;
    entries.plain_end[i] = goes_on ? entries.plain_end[i + 1] : i + (plain ? 1 : 0);
  }
  entries.turn_ends = model::TurnEnds(operations);
  entries.unreleased = model::LeftToTheNextKernel(operations);
  return entries;
}

void TrainingStep::AddLane(std::uint8_t lane) {
  while (lanes_.size() <= lane) {
    lanes_.push_back(builder_.AddStream("compute " + std::to_string(lanes_.size() + 1)));
  }
}

void TrainingStep::AddLayers() {
  // [work] text of its first tensor; those of the others follow.
  std::vector<Index> saved_texts;
  saved_texts.reserve(works_.size());
  for (const model::LayerWork& work : works_) {
    saved_texts.push_back(builder_.texts());
    for (const model::LayerValue& activation : work.Of(model::Lifetime::kSaved)) {
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
    const auto continues = [&](std::size_t at) {
      return works_[work_of_layer_[at]].continues_checkpoint;
    };
    place_in_checkpoint_.push_back(
        continues(index) && continues(index - 1) ? place_in_checkpoint_.back() + 1 : 0);
    const Index name = builder_.AddText(layer.name);
    const model::LayerWork& work = works_[work_of_layer_[index]];
    for (int slot = 0; slot < slots_; ++slot) {
      const Index first = builder_.buffers();
      Index text = saved_texts[work_of_layer_[index]];
      for (const model::LayerValue& activation : work.Of(model::Lifetime::kSaved)) {
        builder_.AddBuffer({.first = name, .second = text++}, activation.bytes,
                           Category::kActivation);
      }
      saved_[static_cast<std::size_t>(slot) * layers + index] = Entries(first, builder_.buffers());
      const Index first_deferred = builder_.buffers();
      for (const model::LayerValue& gradient : work.Of(model::Lifetime::kDeferred)) {
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
  const parallel::RankGrid::Coordinates at = grids_.At(rank());
  const std::int64_t elements_of_rank = stage_.whole_model().parameter_count();
  for (std::size_t t = 0; t < model().tensors.size(); ++t) {
    const model::Tensor& tensor = model().tensors[t];
    const auto in_whole = static_cast<std::size_t>(stage_.whole_tensor(static_cast<int>(t)));
    for (; whole < in_whole; ++whole) elements += stage_.whole_model().tensors[whole].elements;
    // Ranks with other parts have as many elements of their own. A whole tensor has the same first
    // element on all ranks.
    first_elements_.push_back(elements + model::PartOf(tensor, grids_, at) * elements_of_rank);
    tied_contribution_.push_back(
        layers_of_tensor_[t] == 1
            ? program::kNone
            : builder_.AddBuffer(builder_.Named(tensor.name, ".grad (tied)"),
                                 BytesOf(tensor.elements, plan().training.precision),
                                 Category::kGradient));
  }
}

void TrainingStep::AllocateFrozen() {
  std::vector<bool> counted(model().frozen.size(), false);
  for (const model::Layer& layer : model().layers) {
    Bytes bytes;
    for (const int tensor : layer.frozen) {
      if (counted[tensor]) continue;
      counted[tensor] = true;
      bytes += model::FrozenBytes(model(), tensor);
    }
    frozen_.push_back(
        bytes == Bytes()
            ? program::kNone
            : builder_.AddBuffer(builder_.Named(builder_.AddText(layer.name), "/frozen parameters"),
                                 bytes, Category::kParameter));
    if (frozen_.back() != program::kNone) builder_.Allocate(compute(), frozen_.back());
  }
}

void TrainingStep::FindReads(ShardingStrategy& strategy) {
  const auto append = [&](Entries buffers) {
    for (const Index buffer : buffers) {
      if (builder_.SizeOf(buffer) > Bytes()) reads_.push_back(builder_.ReadsAll(buffer));
    }
  };
  std::size_t expected = 2 * model().tensors.size();
  for (const int work : work_of_layer_) {
    expected += works_[work].Of(model::Lifetime::kSaved).size() +
                works_[work].Of(model::Lifetime::kRecomputed).size();
  }
  reads_.reserve(expected);
  for (std::size_t layer = 0; layer < work_of_layer_.size(); ++layer) {
    LayerReads& reads = layer_reads_.emplace_back();
    reads.first = reads_.size();
    strategy.AppendParameterReads(static_cast<int>(layer), reads_);
    if (!frozen_.empty() && frozen_[layer] != program::kNone) {
      reads_.push_back(builder_.ReadsAll(frozen_[layer]));
    }
    reads_.erase(std::remove_if(reads_.begin() + static_cast<std::ptrdiff_t>(reads.first),
                                reads_.end(), [](const auto& use) { return use.size == Bytes(); }),
                 reads_.end());
    reads.parameters = reads_.size();
    for (int slot = 0; slot < slots_; ++slot) {
      append(saved_[static_cast<std::size_t>(slot) * work_of_layer_.size() + layer]);
      append(Recomputed(static_cast<int>(layer)));
      if (slot == 0) reads.activations = reads_.size() - reads.parameters;
    }
    reads.weights = reads_.size();
    if (!plan().parallelism.splits_backward) continue;
    for (int slot = 0; slot < slots_; ++slot) {
      const Entries& buffers = Saved(slot, static_cast<int>(layer));
      const auto& saved = works_[work_of_layer_[layer]].Of(model::Lifetime::kSaved);
      for (std::size_t i = 0; i < saved.size(); ++i) {
        if (saved[i].for_weights) reads_.push_back(builder_.ReadsAll(buffers[i]));
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

}  // namespace stepcast::lowering
