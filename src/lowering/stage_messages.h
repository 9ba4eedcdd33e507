#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/data_type.h"
#include "src/lowering/group_operations.h"
#include "src/lowering/program_builder.h"
#include "src/model/operation.h"
#include "src/parallel/group_layout.h"
#include "src/parallel/pipeline_schedule.h"
#include "src/program/program.h"

// What a pipeline stage receives from its neighbours and sends to them: activations onwards,
// gradients of activations backwards. They follow from the stage's schedule.
namespace stepcast::lowering {

// How a framework sends and receives between the passes of a schedule.
enum class MessageStyle : std::uint8_t {
  // The textbook's: each direction has a stream and a communicator of its own; a pass's receive is
  // posted before the pass ahead of it runs, and nothing waits for a send. Also Megatron-LM's where
  // messages overlap, and PyTorch's with several chunks a stage, which has one communicator for
  // all,
  // on which receives stand in the order in which they are sent.
  kOverlapped,
  // One exchange at a time, on the pipeline's communicator, and the compute stream waits for it:
  //  * Megatron-LM's where messages do not overlap (core/pipeline_parallel/schedules.py,
  //    p2p_communication.py): batches, after which the host waits for the device (batch_p2p_sync);
  //  * PyTorch's with one chunk a stage (torch/distributed/pipelining/schedules.py): batches, too, for
  //    which the host does not wait; nothing waits for a batch of sends alone;
  //  * DeepSpeed's (deepspeed/runtime/pipe/engine.py, schedule.py): a message each, on a communicator
  //    of the two stages, as PyTorch sends what is in no batch. Where layers are
  //    divided it goes in parts (PartitionedTensor), and the host reads the numbers that describe
  //    them, which go along and are left out here.
  kBlocking,
};

// kBlocking: what is exchanged behind a pass, and what its receives are for (Stage::posted).
enum class ExchangesBehind : std::uint8_t {
  kApart,     // what the pass sends; then what is received
  kTogether,  // both as one
  kReceiveFirst,
  kNone,  // the next pass's has it
};

// kBlocking: behind which exchanges the host waits for the device.
enum class MessageWaits : std::uint8_t {
  kNever,
  kAlways,    // all that has been issued
  kGathered,  // what has been issued on the compute stream, before parts are gathered
};

class StageMessages {
 public:
  struct Stage {
    int stage = 0;
    int stages = 1;
    parallel::GroupLayout pipeline{};  // the ranks of all stages that hand on to each other
    MessageStyle style = MessageStyle::kOverlapped;
    std::vector<ExchangesBehind> behind{};  // [pass], kBlocking
    // [pass] passes whose receives are posted when what is exchanged behind it is, counted from the
    // first; kBlocking
    std::vector<std::size_t> posted{};
    MessageWaits host_waits = MessageWaits::kAlways;
    bool sends_beside = false;  // kBlocking: the compute stream does not wait for sends alone
    // kBlocking: each message goes by itself, on a communicator of its two stages.
    bool in_pairs = false;
    // kBlocking: so many ranks that divide layers have the same activations. Each sends one part of
    // them, its own, and receivers gather the whole (Megatron-LM's
    // scatter_gather_tensors_in_pipeline until 2023). 1: each sends all.
    int parts = 1;
    int own_part = 0;
    // The stage's parts of the layers: what each hands on, and which stages have its neighbours.
    struct Chunk {
      bool first = true, last = true;  // of all stages'
      int before = 0, behind = 0;
      Bytes received{};  // activations of a micro-batch from the chunk before
      Bytes sent{};      // ... to the next one
    };
    std::vector<Chunk> chunks{};
    DataType type = DataType::kBf16;
    std::vector<parallel::Action> passes{};  // in the order in which they are issued
    // [pass] kOverlapped: it begins a pair that overlaps with the next one (PipelineStage). The
    // pair begins when both have what they take, and what both send goes out behind the second
    // (DualPipe, dualpipe.py; torch.distributed.pipelining, OVERLAP_F_B).
    std::vector<bool> begins_pair{};
    std::vector<std::size_t> chunk_of{};  // [pass] of `chunks`
    std::vector<int> slots{};             // [pass] of its micro-batch's activations
    std::vector<int> gradient_slots{};    // [pass] of a backward's received gradient
    // [pass] which pass of this stage takes what it makes; kNoPass: none, or one of another stage.
    static constexpr std::size_t kNoPass = static_cast<std::size_t>(-1);
    std::vector<std::size_t> takers{};
  };

  StageMessages(const Stage& stage, GroupOperations& groups, ProgramBuilder& builder);

  const Stage& stage() const { return stage_; }

  // `inputs`: [chunk][slot] where received activations go.
  void WritePrologue(std::vector<std::vector<Index>> inputs);

  // The stream carries messages beside passes. A host that waited for it might wait for a peer that
  // waits for this one.
  bool CarriesBeside(StreamId stream) const {
    return std::any_of(legs_.begin(), legs_.end(), [&](const Leg& leg) {
      return stream == leg.activations.stream || stream == leg.gradients.stream;
    });
  }

  // Around a pass, in order. What it takes is there from AwaitInput on, which comes right before
  // its first kernel, so that other streams need not wait for it.
  void BeforePass(std::size_t pass);
  void AwaitInput(std::size_t pass);
  void AfterPass(std::size_t pass);

  // The buffers of the present pass: what its last kernel writes for the neighbouring chunk, here
  // or on another stage, allocated here, and the received gradient that a backward reads; kNone:
  // there is none.
  Index AllocateOutput(std::size_t pass);
  Index ReceivedGradient(std::size_t pass) const;
  // The backward needs the received gradient no more.
  void ReleaseReceivedGradient(std::size_t pass);

 private:
  bool EndsPair(std::size_t pass) const { return pass > 0 && stage_.begins_pair[pass - 1]; }

  // From or to one neighbour.
  struct Lane {
    StreamId stream = 0;
    Index communicator = program::kNone;
    program::MessageDirection direction = program::MessageDirection::kSend;
    int peer = 0;                                         // in its group
    Index ready = program::kNone;                         // event: its stream may begin
    Index arrived[2] = {program::kNone, program::kNone};  // events, by turns of passes
  };

  // Where a chunk of stage `from` is followed by one of stage `to`, and one of them is this stage.
  struct Leg {
    int from = 0, to = 0;
    Lane activations, gradients;
  };

  bool IsForward(std::size_t pass) const {
    return stage_.passes[pass].task == parallel::Task::kForward;
  }
  // The pass takes something from the neighbouring chunk; makes something for one.
  bool Takes(std::size_t pass) const {
    if (stage_.passes[pass].task == parallel::Task::kBackwardWeight) return false;
    return stage_.stages > 1 && !(IsForward(pass) ? ChunkOf(pass).first : ChunkOf(pass).last);
  }
  bool Gives(std::size_t pass) const {
    if (stage_.passes[pass].task == parallel::Task::kBackwardWeight) return false;
    return stage_.stages > 1 && !(IsForward(pass) ? ChunkOf(pass).last : ChunkOf(pass).first);
  }
  int Giver(std::size_t pass) const {
    return IsForward(pass) ? ChunkOf(pass).before : ChunkOf(pass).behind;
  }
  int Taker(std::size_t pass) const {
    return IsForward(pass) ? ChunkOf(pass).behind : ChunkOf(pass).before;
  }
  // From or to another stage.
  bool Receives(std::size_t pass) const { return Takes(pass) && Giver(pass) != stage_.stage; }
  bool Sends(std::size_t pass) const { return Gives(pass) && Taker(pass) != stage_.stage; }
  const Stage::Chunk& ChunkOf(std::size_t pass) const {
    return stage_.chunks[stage_.chunk_of[pass]];
  }
  // What the pass receives or sends goes this way.
  const Lane& LaneOf(std::size_t pass, bool receives) const;

  Index InputOf(std::size_t pass) const;

  void MakeLegs();
  Lane MakeLane(const Leg& leg, bool activations);
  Index ExchangeOn(const Lane& lane, Bytes bytes);
  Index OutputOf(std::size_t pass) const;
  void PostReceive(std::size_t pass);
  void SendOverlapped(std::size_t pass);
  void ExchangeBlocking(std::size_t pass);
  void AddReceive(std::size_t pass);
  void AddSend(std::size_t pass);
  void RunBlocking();
  // Messages of so many bytes go in parts.
  bool Scatters(Bytes bytes) const;
  // Where parts of a chunk's activations, or of its gradients, are gathered.
  struct Gather {
    model::GroupOperation operation{};
    GroupOperations::Entry entry{};
    Index part = program::kNone;  // buffer: what a rank receives
  };
  Gather MakeGather(const char* name, Bytes bytes);

  const Stage stage_;
  GroupOperations& groups_;
  ProgramBuilder& builder_;
  std::vector<std::vector<Index>> inputs_;
  // Buffers of a chunk.
  struct Buffers {
    std::vector<Index> received_gradients{};  // by gradient slot
    Index sent_activations = program::kNone, sent_gradients = program::kNone;
    Gather activations{}, gradients{};
  };
  std::vector<Buffers> buffers_;
  // kOverlapped
  std::vector<Leg> legs_;
  // kBlocking
  StreamId stream_ = 0;
  // Of all stages; in pairs, of this one with that before and with that behind it.
  Index communicator_ = program::kNone, pairs_[2] = {program::kNone, program::kNone};
  Index before_ = program::kNone, after_ = program::kNone;  // events
  std::vector<Index> drained_;                              // events by stream
  std::vector<program::Message> messages_;                  // of the exchange that is made
  std::vector<program::BufferUse> uses_;
  std::vector<std::pair<const Gather*, Index>> gathers_;  // behind it, into which buffers
  std::size_t posted_ = 0;                                // passes whose receive has been posted
  std::size_t awaited_ = 0;                               // passes whose input is there
};

}  // namespace stepcast::lowering
