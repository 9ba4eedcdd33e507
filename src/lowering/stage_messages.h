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

// Messages between a pipeline stage and its neighbors, derived from the stage's schedule.
// Activations are sent forward, and their gradients are sent backward.
namespace stepcast::lowering {

// How a framework sends and receives between the passes of a schedule.
enum class MessageStyle : std::uint8_t {
  // Each direction has a separate stream and communicator. A pass's receive is posted before the
  // preceding pass runs, and nothing waits for a send. Used by the reference framework and by
  // Megatron-LM with overlapped messages. PyTorch uses this style with several chunks per stage,
  // but all messages share one communicator, which receives in the order of the sends.
  kOverlapped,
  // One exchange at a time, on the pipeline's communicator. The compute stream waits for the
  // exchange. Three kinds of programs use this style:
  //   - Megatron-LM without overlapped messages (core/pipeline_parallel/schedules.py,
  //     p2p_communication.py) sends batches. The host waits for the device after each batch
  //     (batch_p2p_sync).
  //   - PyTorch with one chunk per stage (torch/distributed/pipelining/schedules.py) sends batches
  //     for which the host does not wait. Nothing waits for a batch that only sends.
  //   - DeepSpeed (deepspeed/runtime/pipe/engine.py, schedule.py) sends single messages, each on a
  //     communicator of its two stages, as PyTorch sends messages outside a batch. If ranks divide
  //     layers, a message is sent in parts (PartitionedTensor). The host reads the metadata of
  //     these parts, which is not modeled.
  kBlocking,
};

// How, after a pass, the pass's output is sent and inputs of later passes (Stage::posted) are
// received. Only for kBlocking.
enum class ExchangesBehind : std::uint8_t {
  kApart,     // an exchange for the send, then an exchange for the receives
  kTogether,  // one exchange for the send and the receives
  kReceiveFirst,
  kNone,  // the next pass's exchange sends and receives
};

// When the host waits for the device after an exchange. Only for kBlocking.
enum class MessageWaits : std::uint8_t {
  kNever,
  kAlways,    // always, for all issued work
  kGathered,  // before parts are gathered, for the compute stream
};

class StageMessages {
 public:
  struct Stage {
    int stage = 0;
    int stages = 1;
    // The ranks of all stages with the same position in their stage.
    parallel::GroupLayout pipeline{};
    MessageStyle style = MessageStyle::kOverlapped;
    std::vector<ExchangesBehind> behind{};  // indexed by pass; only for kBlocking
    // For each pass, the number of passes whose receives are posted in the exchange after this pass
    // or earlier. Only for kBlocking.
    std::vector<std::size_t> posted{};
    MessageWaits host_waits = MessageWaits::kAlways;
    // Whether the compute stream does not wait for exchanges that only send. Only for kBlocking.
    bool sends_beside = false;
    // Whether each message is sent separately, on a communicator of its two stages. Only for
    // kBlocking.
    bool in_pairs = false;
    // The number of ranks with the same activations that each send one part of a message. Receivers
    // gather all parts (Megatron-LM's scatter_gather_tensors_in_pipeline until 2023). 1: each rank
    // sends the complete message. Only for kBlocking.
    int parts = 1;
    int own_part = 0;
    // A chunk of the stage, its message sizes, and the stages of its neighbors.
    struct Chunk {
      bool first = true, last = true;  // whether it is the first or last chunk of all stages
      int before = 0, behind = 0;
      Bytes received{};  // bytes of a micro-batch's activations from the previous chunk
      Bytes sent{};      // bytes of a micro-batch's activations to the next chunk
    };
    std::vector<Chunk> chunks{};
    DataType type = DataType::kBf16;
    std::vector<parallel::Action> passes{};  // passes in issue order
    // For each pass, whether it overlaps with the next pass (PipelineStage::begins_pair). The two
    // passes begin when both inputs have arrived, and both outputs are sent after the second pass
    // (DualPipe, dualpipe.py; torch.distributed.pipelining, OVERLAP_F_B). Only for kOverlapped.
    std::vector<bool> begins_pair{};
    std::vector<std::size_t> chunk_of{};  // indexed by pass: index in `chunks`
    std::vector<int> slots{};             // indexed by pass: slot of its micro-batch's activations
    std::vector<int> gradient_slots{};    // by pass: slot of the received gradient
    // For each pass, the pass of this stage that receives its output. kNoPass: the output is sent
    // to another stage, or there is no output.
    static constexpr std::size_t kNoPass = static_cast<std::size_t>(-1);
    std::vector<std::size_t> takers{};
  };

  StageMessages(const Stage& stage, GroupOperations& groups, ProgramBuilder& builder);

  const Stage& stage() const { return stage_; }

  // Writes the prologue. `inputs[chunk][slot]` are the buffers for received activations.
  void WritePrologue(std::vector<std::vector<Index>> inputs);

  // Returns whether the stream transfers messages that overlap with passes. The host must not wait
  // for such a stream, because its peer may wait for this host (deadlock).
  bool CarriesBeside(StreamId stream) const {
    return std::any_of(legs_.begin(), legs_.end(), [&](const Leg& leg) {
      return stream == leg.activations.stream || stream == leg.gradients.stream;
    });
  }

  // Call these functions around a pass, in this order. AwaitInput waits for the pass's input. Call
  // AwaitInput immediately before the pass's first kernel, so that other streams do not wait.
  void BeforePass(std::size_t pass);
  void AwaitInput(std::size_t pass);
  void AfterPass(std::size_t pass);

  // Return buffers of the current pass, or kNone. AllocateOutput allocates the output, which the
  // pass's last kernel writes for the neighboring chunk, on this or another stage. ReceivedGradient
  // returns the gradient that a backward pass reads.
  Index AllocateOutput(std::size_t pass);
  Index ReceivedGradient(std::size_t pass) const;
  // Releases the received gradient. Call this function when backward no longer needs it.
  void ReleaseReceivedGradient(std::size_t pass);

 private:
  bool EndsPair(std::size_t pass) const { return pass > 0 && stage_.begins_pair[pass - 1]; }

  // The messages from one neighbor, or to one neighbor.
  struct Lane {
    StreamId stream = 0;
    Index communicator = program::kNone;
    program::MessageDirection direction = program::MessageDirection::kSend;
    int peer = 0;                                         // position in the communicator's group
    Index ready = program::kNone;                         // event before the stream starts
    Index arrived[2] = {program::kNone, program::kNone};  // alternate between passes
  };

  // The boundary between a chunk on stage `from` and the next chunk on stage `to`. This stage is
  // `from` or `to`.
  struct Leg {
    int from = 0, to = 0;
    Lane activations, gradients;
  };

  bool IsForward(std::size_t pass) const {
    return stage_.passes[pass].task == parallel::Task::kForward;
  }
  // `Takes` returns whether a previous chunk computes the pass's input. `Gives` returns whether
  // another chunk uses the pass's output.
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
  // `Receives` returns whether another stage sends the pass's input. `Sends` returns whether the
  // output is sent to another stage.
  bool Receives(std::size_t pass) const { return Takes(pass) && Giver(pass) != stage_.stage; }
  bool Sends(std::size_t pass) const { return Gives(pass) && Taker(pass) != stage_.stage; }
  const Stage::Chunk& ChunkOf(std::size_t pass) const {
    return stage_.chunks[stage_.chunk_of[pass]];
  }
  // Returns the lane of the message that the pass receives or, if `receives` is false, sends.
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
  // Returns whether messages of this size are divided into parts.
  bool Scatters(Bytes bytes) const;
  // An all-gather that assembles a chunk's activations or gradients from their parts.
  struct Gather {
    model::GroupOperation operation{};
    GroupOperations::Entry entry{};
    Index part = program::kNone;  // buffer for the part that this rank receives
  };
  Gather MakeGather(const char* name, Bytes bytes);

  const Stage stage_;
  GroupOperations& groups_;
  ProgramBuilder& builder_;
  std::vector<std::vector<Index>> inputs_;
  // The buffers of a chunk.
  struct Buffers {
    std::vector<Index> received_gradients{};  // indexed by gradient slot
    Index sent_activations = program::kNone, sent_gradients = program::kNone;
    Gather activations{}, gradients{};
  };
  std::vector<Buffers> buffers_;
  // For kOverlapped:
  std::vector<Leg> legs_;
  // For kBlocking:
  StreamId stream_ = 0;
  // `communicator_` connects all stages. `pairs_` are communicators with the previous and with the
  // next stage.
  Index communicator_ = program::kNone, pairs_[2] = {program::kNone, program::kNone};
  Index before_ = program::kNone, after_ = program::kNone;  // indices of events
  std::vector<Index> drained_;                              // indexed by stream: events
  std::vector<program::Message> messages_;                  // of the exchange that is being built
  std::vector<program::BufferUse> uses_;
  // The gathers after the exchange, with their target buffers.
  std::vector<std::pair<const Gather*, Index>> gathers_;
  std::size_t posted_ = 0;   // number of passes with a posted receive
  std::size_t awaited_ = 0;  // number of passes whose input has arrived
};

}  // namespace stepcast::lowering
