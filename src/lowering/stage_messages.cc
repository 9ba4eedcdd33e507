#include "src/lowering/stage_messages.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "src/base/check.h"
#include "src/base/collective_kind.h"
#include "src/parallel/axis.h"

namespace stepcast::lowering {

using parallel::Task;
using program::BufferUse;
using program::Category;
using program::kNone;
using program::MessageDirection;

StageMessages::StageMessages(const Stage& stage, GroupOperations& groups, ProgramBuilder& builder)
    : stage_(stage), groups_(groups), builder_(builder) {
  STEPCAST_CHECK(stage.passes.size() == stage.slots.size(), "every pass must have a slot");
}

// The members of a communicator create it together, so all stages create them in the same order:
// that of the legs' ends.
void StageMessages::MakeLegs() {
  std::set<std::pair<int, int>> ends;
  for (const Stage::Chunk& chunk : stage_.chunks) {
    if (!chunk.first && chunk.before != stage_.stage) ends.emplace(chunk.before, stage_.stage);
    if (!chunk.last && chunk.behind != stage_.stage) ends.emplace(stage_.stage, chunk.behind);
  }
  for (const auto& [from, to] : ends) {
    legs_.push_back({.from = from, .to = to, .activations = {}, .gradients = {}});
  }
  for (Leg& leg : legs_) {
    leg.activations = MakeLane(leg, true);
    leg.gradients = MakeLane(leg, false);
  }
}

StageMessages::Lane StageMessages::MakeLane(const Leg& leg, bool activations) {
  const bool sends = (leg.from == stage_.stage) == activations;
  const int neighbour = leg.from == stage_.stage ? leg.to : leg.from;
  std::string name =
      std::string(sends ? "send " : "receive ") + (activations ? "activations" : "gradients");
  const auto alike = [&](const Leg& other) {
    return (other.from == stage_.stage) == (leg.from == stage_.stage);
  };
  if (std::count_if(legs_.begin(), legs_.end(), alike) > 1) {
    name += (sends ? " to stage " : " from stage ") + std::to_string(neighbour);
  }
  Lane lane{.direction = sends ? MessageDirection::kSend : MessageDirection::kReceive,
            .peer = neighbour > stage_.stage ? 1 : 0};
  lane.stream = builder_.AddStream(name);
  // Named by the stages in the order of their chunks, because two stages may be neighbours twice.
  lane.communicator = builder_.AddCommunicator(
      (activations ? "activations " : "gradients ") + std::to_string(leg.from) + "-" +
          std::to_string(leg.to),
      stage_.pipeline.Only({std::min(leg.from, leg.to), std::max(leg.from, leg.to)}));
  lane.ready = builder_.AddEvent(name + " may begin");
  if (!sends) {
    for (Index& event : lane.arrived) event = builder_.AddEvent(name + " arrived");
  }
  return lane;
}

const StageMessages::Lane& StageMessages::LaneOf(std::size_t pass, bool receives) const {
  const bool onwards = IsForward(pass) != receives;  // to the chunk behind
  const int from = onwards ? stage_.stage : ChunkOf(pass).before;
  const int to = onwards ? ChunkOf(pass).behind : stage_.stage;
  const auto leg = std::find_if(legs_.begin(), legs_.end(), [&](const Leg& known) {
    return known.from == from && known.to == to;
  });
  return IsForward(pass) ? leg->activations : leg->gradients;
}

Index StageMessages::ExchangeOn(const Lane& lane, Bytes bytes) {
  return builder_.AddExchange(
      {.communicator = lane.communicator,
       .data_type = stage_.type,
       .messages = {{.direction = lane.direction, .peer = lane.peer, .bytes = bytes}}});
}

void StageMessages::WritePrologue(std::vector<std::vector<Index>> inputs) {
  if (stage_.stages == 1) return;
  inputs_ = std::move(inputs);
  for (std::size_t number = 0; number < stage_.chunks.size(); ++number) {
    const Stage::Chunk& chunk = stage_.chunks[number];
    Buffers& buffers = buffers_.emplace_back();
    if (!chunk.last) {
      if (chunk.behind != stage_.stage) {
        buffers.sent_activations =
            builder_.AddBuffer("activations sent", chunk.sent, Category::kActivation);
      }
      int slots = 0;
      for (std::size_t pass = 0; pass < stage_.passes.size(); ++pass) {
        if (stage_.chunk_of[pass] == number) {
          slots = std::max(slots, stage_.gradient_slots[pass] + 1);
        }
      }
      for (int slot = 0; slot < slots; ++slot) {
        buffers.received_gradients.push_back(
            builder_.AddBuffer("gradients received", chunk.sent, Category::kActivation));
      }
    }
    if (!chunk.first && chunk.before != stage_.stage) {
      buffers.sent_gradients =
          builder_.AddBuffer("gradients sent", chunk.received, Category::kActivation);
    }
  }
  if (stage_.style == MessageStyle::kOverlapped) {
    MakeLegs();
    return;
  }
  for (std::size_t number = 0; number < stage_.chunks.size(); ++number) {
    const Stage::Chunk& chunk = stage_.chunks[number];
    if (!chunk.first && Scatters(chunk.received)) {
      buffers_[number].activations = MakeGather("activations received: a part", chunk.received);
    }
    if (!chunk.last && Scatters(chunk.sent)) {
      buffers_[number].gradients = MakeGather("gradients received: a part", chunk.sent);
    }
  }
  stream_ = builder_.AddStream("nccl pipeline");
  if (stage_.in_pairs) {
    for (int first = std::max(0, stage_.stage - 1);
         first <= stage_.stage && first + 1 < stage_.stages; ++first) {
      pairs_[first == stage_.stage ? 1 : 0] = builder_.AddCommunicator(
          "pipeline " + std::to_string(first) + "-" + std::to_string(first + 1),
          stage_.pipeline.Only({first, first + 1}));
    }
  } else {
    communicator_ = builder_.AddCommunicator("pipeline", stage_.pipeline);
  }
  before_ = builder_.AddEvent("messages may begin");
  after_ = builder_.AddEvent("messages have moved");
  const StreamId waited = stage_.host_waits == MessageWaits::kAlways     ? builder_.streams()
                          : stage_.host_waits == MessageWaits::kGathered ? kCompute + 1
                                                                         : 0;
  for (StreamId stream = 0; stream < waited; ++stream) {
    drained_.push_back(
        builder_.AddEvent({.first = builder_.AddNumbered("device synchronised ", stream)}));
  }
}

Index StageMessages::OutputOf(std::size_t pass) const {
  if (stage_.takers[pass] != Stage::kNoPass) return InputOf(stage_.takers[pass]);
  const Buffers& buffers = buffers_[stage_.chunk_of[pass]];
  return IsForward(pass) ? buffers.sent_activations : buffers.sent_gradients;
}

Index StageMessages::InputOf(std::size_t pass) const {
  const std::size_t chunk = stage_.chunk_of[pass];
  if (IsForward(pass)) return inputs_[chunk][static_cast<std::size_t>(stage_.slots[pass])];
  return buffers_[chunk].received_gradients[static_cast<std::size_t>(stage_.gradient_slots[pass])];
}

void StageMessages::BeforePass(std::size_t pass) {
  if (pass == 0) posted_ = awaited_ = 0;
  if (stage_.style == MessageStyle::kBlocking) {
    if (posted_ > pass) return;
    AddReceive(pass);
    RunBlocking();
    return;
  }
  const std::size_t end = std::min(pass + 2, stage_.passes.size());
  for (; posted_ < end; ++posted_) PostReceive(posted_);
}

void StageMessages::AwaitInput(std::size_t pass) {
  if (stage_.style == MessageStyle::kBlocking) return;
  // The first pass of a pair waits for the messages that both need.
  const std::size_t first = EndsPair(pass) ? pass - 1 : pass;
  const std::size_t end = first + (stage_.begins_pair[first] ? 2 : 1);
  if (awaited_ >= end) return;
  awaited_ = end;
  for (std::size_t own = first; own < end; ++own) {
    if (Receives(own)) builder_.Wait(kCompute, LaneOf(own, true).arrived[own % 2]);
  }
}

void StageMessages::PostReceive(std::size_t pass) {
  if (!Receives(pass)) return;
  const Lane& lane = LaneOf(pass, true);
  const Index buffer = InputOf(pass);
  builder_.Allocate(kCompute, buffer);
  builder_.WaitForStream(lane.stream, kCompute, lane.ready);
  builder_.Exchange(lane.stream, ExchangeOn(lane, builder_.SizeOf(buffer)),
                    {builder_.WritesAll(buffer)});
  builder_.Record(lane.stream, lane.arrived[pass % 2]);
}

void StageMessages::AfterPass(std::size_t pass) {
  if (stage_.stages == 1) return;
  if (stage_.style == MessageStyle::kOverlapped) {
    if (stage_.begins_pair[pass]) return;
    if (EndsPair(pass)) SendOverlapped(pass - 1);
    SendOverlapped(pass);
  } else {
    ExchangeBlocking(pass);
  }
}

void StageMessages::SendOverlapped(std::size_t pass) {
  if (!Sends(pass)) return;
  const Lane& lane = LaneOf(pass, false);
  const Index buffer = OutputOf(pass);
  builder_.WaitForStream(lane.stream, kCompute, lane.ready);
  builder_.Exchange(lane.stream, ExchangeOn(lane, builder_.SizeOf(buffer)),
                    {builder_.ReadsAll(buffer)});
  builder_.RecordStream(lane.stream, buffer);
  builder_.Release(buffer);
}

bool StageMessages::Scatters(Bytes bytes) const {
  return stage_.parts > 1 && bytes.count() % (stage_.parts * SizeOf(stage_.type)) == 0;
}

StageMessages::Gather StageMessages::MakeGather(const char* name, Bytes bytes) {
  Gather gather{.operation = {.collective = CollectiveKind::kAllGather,
                              .axes = parallel::Axis::kTensor,
                              .bytes = bytes,
                              .type = stage_.type}};
  gather.entry = groups_.Add(gather.operation);
  gather.part =
      builder_.AddBuffer(name, Bytes(bytes.count() / stage_.parts), Category::kActivation);
  return gather;
}

void StageMessages::ExchangeBlocking(std::size_t pass) {
  const ExchangesBehind behind = stage_.behind[pass];
  const auto receive = [&] {
    for (posted_ = std::max(posted_, pass + 1); posted_ < stage_.posted[pass]; ++posted_) {
      AddReceive(posted_);
    }
  };
  if (behind == ExchangesBehind::kReceiveFirst) {
    receive();
    RunBlocking();
  }
  AddSend(pass);
  if (behind == ExchangesBehind::kNone) return;
  if (behind == ExchangesBehind::kApart) RunBlocking();
  receive();
  RunBlocking();
}

void StageMessages::AddReceive(std::size_t pass) {
  if (!Receives(pass)) return;
  const Index whole = InputOf(pass);
  builder_.Allocate(kCompute, whole);
  const Buffers& buffers = buffers_[stage_.chunk_of[pass]];
  const Gather& gather = IsForward(pass) ? buffers.activations : buffers.gradients;
  const bool in_parts = gather.part != kNone;
  const Index buffer = in_parts ? gather.part : whole;
  if (in_parts) {
    builder_.Allocate(kCompute, buffer);
    gathers_.emplace_back(&gather, whole);
  }
  messages_.push_back({.direction = MessageDirection::kReceive,
                       .peer = Giver(pass),
                       .bytes = builder_.SizeOf(buffer)});
  uses_.push_back(builder_.WritesAll(buffer));
}

void StageMessages::AddSend(std::size_t pass) {
  if (!Sends(pass)) return;
  const Index buffer = OutputOf(pass);
  program::BufferUse use = builder_.ReadsAll(buffer);
  if (Scatters(use.size)) {
    use.size = Bytes(use.size.count() / stage_.parts);
    use.offset = stage_.own_part * use.size;
  }
  messages_.push_back(
      {.direction = MessageDirection::kSend, .peer = Taker(pass), .bytes = use.size});
  uses_.push_back(use);
}

void StageMessages::RunBlocking() {
  if (messages_.empty()) return;
  Index communicator = communicator_;
  if (stage_.in_pairs) {
    STEPCAST_CHECK(messages_.size() == 1, "each message must be sent separately");
    const bool onwards = messages_.front().peer > stage_.stage;
    communicator = pairs_[onwards ? 1 : 0];
    messages_.front().peer = onwards ? 1 : 0;
  }
  const Index exchange = builder_.AddExchange(
      {.communicator = communicator, .data_type = stage_.type, .messages = messages_});
  builder_.WaitForStream(stream_, kCompute, before_);
  builder_.Exchange(stream_, exchange, uses_);
  const auto sends = [](const program::Message& message) {
    return message.direction == MessageDirection::kSend;
  };
  const bool beside = stage_.sends_beside && std::all_of(messages_.begin(), messages_.end(), sends);
  if (!beside) builder_.WaitForStream(kCompute, stream_, after_);
  for (std::size_t i = 0; i < messages_.size(); ++i) {
    if (!sends(messages_[i])) continue;
    if (beside) builder_.RecordStream(stream_, uses_[i].buffer);
    builder_.Release(uses_[i].buffer);
  }
  messages_.clear();
  uses_.clear();
  if (stage_.host_waits != MessageWaits::kGathered || !gathers_.empty()) {
    for (std::size_t stream = 0; stream < drained_.size(); ++stream) {
      builder_.Record(static_cast<StreamId>(stream), drained_[stream]);
    }
    for (const Index event : drained_) builder_.HostWait(event);
  }
  for (const auto& [gather, whole] : gathers_) {
    groups_.Issue(gather->entry, gather->operation, gather->part, whole);
    builder_.Wait(kCompute, gather->entry.done);
    builder_.Release(gather->part);
  }
  gathers_.clear();
}

Index StageMessages::AllocateOutput(std::size_t pass) {
  if (!Gives(pass)) return kNone;
  const Index buffer = OutputOf(pass);
  builder_.Allocate(kCompute, buffer);
  return buffer;
}

Index StageMessages::ReceivedGradient(std::size_t pass) const {
  const bool received = stage_.stages > 1 && !IsForward(pass) && !ChunkOf(pass).last;
  return received ? InputOf(pass) : kNone;
}

void StageMessages::ReleaseReceivedGradient(std::size_t pass) {
  if (const Index buffer = ReceivedGradient(pass); buffer != kNone) builder_.Release(buffer);
}

}  // namespace stepcast::lowering
