#include "src/lowering/vocabulary_collectives.h"

#include <algorithm>
#include <string>
#include <utility>

#include "src/base/collective_kind.h"
#include "src/lowering/effects.h"

namespace stepcast::lowering {

using program::Category;
using program::kNone;

namespace {

constexpr StreamId kCompute = program::Program::kComputeStream;

int MostOf(const std::vector<int>& slots, const std::vector<std::size_t>& chunk_of,
           std::size_t chunk) {
  int most = 0;
  for (std::size_t pass = 0; pass < slots.size(); ++pass) {
    if (chunk_of[pass] == chunk) most = std::max(most, slots[pass] + 1);
  }
  return most;
}

}  // namespace

VocabularyCollectives::VocabularyCollectives(parallel::Vocabulary vocabulary,
                                             const PipelineStage& stage,
                                             const StageMessages::Stage& messages,
                                             const Shapes& shapes, ProgramBuilder& builder)
    : vocabulary_(vocabulary),
      stage_(stage),
      messages_(messages),
      shapes_(shapes),
      builder_(builder) {}

void VocabularyCollectives::AddLink(Kind kind, const char* name, Bytes bytes, DataType type,
                                    bool broadcasts, int root, int slots) {
  Link& link = At(kind);
  link.bytes = bytes;
  link.type = type;
  link.broadcasts = broadcasts;
  link.stream = builder_.AddStream(name);
  link.collective = builder_.AddCollective(
      {.kind = broadcasts ? CollectiveKind::kBroadcast : CollectiveKind::kAllReduce,
       .communicator = builder_.AddCommunicator(name, messages_.pipeline),
       .bytes = bytes,
       .data_type = type,
       .root = broadcasts ? root : 0});
  link.ready = builder_.AddEvent(std::string(name) + " may begin");
  for (int slot = 0; slot < slots; ++slot) {
    link.done.push_back(builder_.AddEvent(std::string(name) + " done"));
  }
}

void VocabularyCollectives::WritePrologue(std::vector<std::vector<Index>> inputs) {
  if (!on()) return;
  inputs_ = std::move(inputs);
  const std::vector<PipelineStage::Chunk>& chunks = stage_.chunks();
  block_chunks_ = chunks.front().number;
  const std::size_t output = chunks.size() - 1;
  std::size_t first = 0, last = 0;
  for (std::size_t chunk = 1; chunk < output; ++chunk) {
    if (chunks[chunk].number == 0) first = chunk;
    if (chunks[chunk].number + 1 == block_chunks_) last = chunk;
  }
  has_first_ = first > 0;
  has_last_ = last > 0;
  const auto slots = [&](std::size_t chunk) {
    return MostOf(messages_.slots, messages_.chunk_of, chunk);
  };
  const auto gradient_slots = [&](std::size_t chunk) {
    return MostOf(messages_.gradient_slots, messages_.chunk_of, chunk);
  };
  const auto add = [&](const char* name, Bytes bytes) {
    return builder_.AddBuffer(name, bytes, Category::kActivation);
  };
  links_.resize(kKinds);
  // Communicators are made together by their members, in one order.
  AddLink(Kind::kRows, "input layer sums", shapes_.embedding, messages_.type, false, 0,
          has_first_ ? slots(first) : 1);
  AddLink(Kind::kHidden, "output layer inputs", shapes_.hidden, messages_.type, true,
          chunks.back().before, slots(output));
  if (!waits()) {
    AddLink(Kind::kStatistics, "output layer sums", shapes_.statistics, DataType::kFp32, false, 0,
            slots(output));
    AddLink(Kind::kGradients, "output layer gradients", shapes_.hidden, messages_.type, false, 0,
            has_last_ ? gradient_slots(last) : 1);
  }
  AddLink(Kind::kInputGradients, "input layer gradients", shapes_.embedding, messages_.type, true,
          chunks.front().behind, gradient_slots(0));
  if (!has_first_) rows_ = add("rows of words", shapes_.embedding);
  if (!has_last_ && !waits()) gradients_ = add("gradients of the output layer", shapes_.hidden);
  for (int slot = 0; slot < slots(output) && !waits(); ++slot) {
    statistics_.push_back(add("maxima and sums of logits", shapes_.statistics));
  }
  for (int slot = 0; has_last_ && slot < gradient_slots(last); ++slot) {
    received_gradients_.push_back(add("gradients received", shapes_.hidden));
  }
  for (int slot = 0; slot < gradient_slots(0); ++slot) {
    gradients_of_inputs_.push_back(add("gradients of rows received", shapes_.embedding));
  }
}

bool VocabularyCollectives::CarriesBeside(StreamId stream) const {
  return std::any_of(links_.begin(), links_.end(), [&](const Link& link) {
    return link.collective != kNone && link.stream == stream;
  });
}

Index VocabularyCollectives::InputOf(std::size_t pass) const {
  const std::size_t chunk = messages_.chunk_of[pass];
  if (Forward(pass)) return inputs_[chunk][static_cast<std::size_t>(slot(pass))];
  const auto at = static_cast<std::size_t>(gradient_slot(pass));
  return OfInput(pass) ? gradients_of_inputs_[at] : received_gradients_[at];
}

void VocabularyCollectives::Run(Kind kind, Index buffer, int slot) {
  const Link& link = At(kind);
  builder_.WaitForStream(link.stream, kCompute, link.ready);
  const program::Elements all = lowering::At(buffer, 0, link.type);
  builder_.With(Collected(all, all, link.bytes.count() / SizeOf(link.type)));
  builder_.Communicate(link.stream, link.collective, {builder_.WritesAll(buffer)});
  builder_.Record(link.stream, link.done[static_cast<std::size_t>(slot)]);
}

void VocabularyCollectives::Receive(std::size_t pass) {
  const bool hidden = OfOutput(pass) && Forward(pass) && !has_last_;
  const bool gradients = OfInput(pass) && !Forward(pass) && !has_first_;
  if (!hidden && !gradients) return;
  const Index buffer = InputOf(pass);
  builder_.Allocate(kCompute, buffer);
  Run(hidden ? Kind::kHidden : Kind::kInputGradients, buffer,
      hidden ? slot(pass) : gradient_slot(pass));
}

void VocabularyCollectives::BeforePass(std::size_t pass) {
  if (!on()) return;
  for (const std::size_t later : messages_.received_from[pass]) Receive(later);
}

void VocabularyCollectives::AwaitInput(std::size_t pass) {
  if (!on() || Weights(pass)) return;
  const auto wait = [&](Kind kind, int slot) {
    builder_.Wait(kCompute, At(kind).done[static_cast<std::size_t>(slot)]);
  };
  if (Forward(pass)) {
    if (OfFirst(pass)) wait(Kind::kRows, slot(pass));
    if (OfOutput(pass)) wait(Kind::kHidden, slot(pass));
    return;
  }
  if (OfOutput(pass) && !waits()) wait(Kind::kStatistics, slot(pass));
  if (OfLast(pass) && !waits()) wait(Kind::kGradients, gradient_slot(pass));
  if (OfInput(pass)) wait(Kind::kInputGradients, gradient_slot(pass));
}

std::vector<VocabularyCollectives::Output> VocabularyCollectives::AllocateOutputs(
    std::size_t pass) {
  std::vector<Output> outputs;
  if (!on() || Weights(pass)) return outputs;
  const auto add = [&](Index buffer, bool sum, DataType type) {
    builder_.Allocate(kCompute, buffer);
    outputs.push_back({buffer, sum, type});
  };
  if (OfInput(pass) && Forward(pass)) {
    add(has_first_ ? InputOf(taker(pass)) : rows_, true, messages_.type);
  }
  if (OfLast(pass) && Forward(pass)) add(InputOf(taker(pass)), false, messages_.type);
  if (OfOutput(pass) && Forward(pass) && !waits()) {
    add(statistics_[static_cast<std::size_t>(slot(pass))], true, DataType::kFp32);
  }
  if (GivesGradients(pass)) {
    add(has_last_ ? InputOf(taker(pass)) : gradients_, true, messages_.type);
  } else if (waits() && has_last_ && OfOutput(pass) && !Forward(pass)) {
    add(InputOf(taker(pass)), false, messages_.type);
  }
  if (OfFirst(pass) && !Forward(pass)) add(InputOf(taker(pass)), false, messages_.type);
  return outputs;
}

void VocabularyCollectives::AddUp(std::size_t pass, Kind kind, Index buffer) {
  if (buffer == kNone) {  // the stage itself takes it
    const std::size_t to = taker(pass);
    Run(kind, InputOf(to), Forward(to) ? slot(to) : gradient_slot(to));
    return;
  }
  Run(kind, buffer, 0);
  builder_.RecordStream(At(kind).stream, buffer);
  builder_.Release(buffer);
}

void VocabularyCollectives::AfterPass(std::size_t pass) {
  if (!on() || Weights(pass)) return;
  const auto send = [&](Kind kind) {
    const std::size_t to = taker(pass);
    Run(kind, InputOf(to), Forward(to) ? slot(to) : gradient_slot(to));
  };
  if (OfInput(pass) && Forward(pass)) {
    AddUp(pass, Kind::kRows, rows_);
    if (waits()) {
      const Link& link = At(Kind::kRows);
      builder_.Wait(kCompute,
                    link.done[has_first_ ? static_cast<std::size_t>(slot(taker(pass))) : 0]);
    }
  }
  if (OfLast(pass) && Forward(pass)) send(Kind::kHidden);
  if (OfOutput(pass) && Forward(pass) && !waits()) {
    Run(Kind::kStatistics, statistics_[static_cast<std::size_t>(slot(pass))], slot(pass));
  }
  if (GivesGradients(pass)) AddUp(pass, Kind::kGradients, gradients_);
  if (OfFirst(pass) && !Forward(pass)) send(Kind::kInputGradients);
}

Index VocabularyCollectives::Received(std::size_t pass) const {
  if (!on() || Forward(pass)) return kNone;
  if (OfOutput(pass)) return waits() ? kNone : statistics_[static_cast<std::size_t>(slot(pass))];
  return OfLast(pass) || OfInput(pass) ? InputOf(pass) : kNone;
}

}  // namespace stepcast::lowering
