#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/data_type.h"
#include "src/lowering/program_builder.h"
#include "src/parallel/group_layout.h"
#include "src/parallel/pipeline_schedule.h"
#include "src/program/program.h"

// What a pipeline stage receives from its neighbours and sends to them: activations onwards,
// gradients of activations backwards. They follow from the stage's schedule.
namespace stepcast::lowering {

// How a framework sends and receives between the passes of a schedule.
enum class MessageStyle : std::uint8_t {
  // The textbook's: each direction has a stream and a communicator of its own; a pass's receive is
  // posted before the pass ahead of it runs, and nothing waits for a send.
  kOverlapped,
  // Megatron-LM's without interleaving (core/pipeline_parallel/schedules.py,
  // p2p_communication.py): one exchange at a time, batched on the pipeline's communicator; between
  // a forward and a backward the send of the one and the receive of the other are one exchange. The
  // compute stream waits for each, and after each the host waits for the device (batch_p2p_sync,
  // on by default).
  kBlocking,
};

class StageMessages {
 public:
  struct Stage {
    int stage = 0;
    int stages = 1;
    parallel::GroupLayout pipeline{};  // the ranks of all stages that hand on to each other
    MessageStyle style = MessageStyle::kOverlapped;
    // The stage's part of the layers, or several with virtual stages: what each hands on.
    struct Chunk {
      bool first = true, last = true;  // of all stages'
      Bytes received{};                // activations of a micro-batch from the chunk before
      Bytes sent{};                    // ... to the next one
    };
    std::vector<Chunk> chunks{};
    DataType type = DataType::kBf16;
    std::vector<parallel::Action> passes{};  // in the order in which they are issued
    std::vector<std::size_t> chunk_of{};     // [pass] of `chunks`
    std::vector<int> slots{};                // [pass] of its micro-batch's activations
  };

  StageMessages(const Stage& stage, ProgramBuilder& builder);

  const Stage& stage() const { return stage_; }

  // `inputs`: [chunk][slot] where received activations go.
  void WritePrologue(std::vector<std::vector<Index>> inputs);

  // The stream carries messages beside passes. A host that waited for it might wait for a peer that
  // waits for this one.
  bool CarriesBeside(StreamId stream) const {
    return stage_.stages > 1 && stage_.style == MessageStyle::kOverlapped &&
           (stream == receive_activations_.stream || stream == receive_gradients_.stream ||
            stream == send_activations_.stream || stream == send_gradients_.stream);
  }

  // Around a pass, in order. What it takes is there from AwaitInput on, which comes right before
  // its first kernel, so that other streams need not wait for it.
  void BeforePass(std::size_t pass);
  void AwaitInput(std::size_t pass);
  void AfterPass(std::size_t pass);

  // The buffers of the present pass: what its last kernel writes for the neighbour, allocated here,
  // and the received gradient that a backward reads; kNone: there is none.
  Index AllocateOutput(std::size_t pass);
  Index ReceivedGradient(std::size_t pass) const;
  // The backward needs the received gradient no more.
  void ReleaseReceivedGradient(std::size_t pass);

 private:
  // One direction to one neighbour.
  struct Lane {
    StreamId stream = 0;
    Index communicator = program::kNone;
    program::MessageDirection direction = program::MessageDirection::kSend;
    int peer = 0;                                         // in its group
    Index ready = program::kNone;                         // event: its stream may begin
    Index arrived[2] = {program::kNone, program::kNone};  // events, by turns of passes
  };

  bool IsForward(std::size_t pass) const {
    return stage_.passes[pass].task == parallel::Task::kForward;
  }
  // The pass takes something from a neighbour; makes something for one.
  bool Receives(std::size_t pass) const {
    return stage_.stages > 1 && !(IsForward(pass) ? ChunkOf(pass).first : ChunkOf(pass).last);
  }
  bool Sends(std::size_t pass) const {
    return stage_.stages > 1 && !(IsForward(pass) ? ChunkOf(pass).last : ChunkOf(pass).first);
  }
  const Stage::Chunk& ChunkOf(std::size_t pass) const {
    return stage_.chunks[stage_.chunk_of[pass]];
  }
  // The stages that hold the neighbouring chunks: the pipeline is a ring where stages have several.
  int before() const { return (stage_.stage + stage_.stages - 1) % stage_.stages; }
  int behind() const { return (stage_.stage + 1) % stage_.stages; }

  Index InputOf(std::size_t pass) const;

  // `onwards`: to or from the stage behind; else the one before.
  Lane MakeLane(const char* name, program::MessageDirection direction, bool onwards);
  Index ExchangeOn(const Lane& lane, Bytes bytes);
  Index OutputOf(std::size_t pass) const;
  void PostReceive(std::size_t pass);
  void SendOverlapped(std::size_t pass);
  // What the pass sends and what the one after it takes.
  void ExchangeBlocking(std::size_t pass);
  void AddReceive(std::size_t pass);
  void AddSend(std::size_t pass);
  void RunBlocking();

  const Stage stage_;
  ProgramBuilder& builder_;
  std::vector<std::vector<Index>> inputs_;
  // Buffers of a chunk.
  struct Buffers {
    Index received_gradients[2] = {program::kNone, program::kNone};  // by turns of passes
    Index sent_activations = program::kNone, sent_gradients = program::kNone;
  };
  std::vector<Buffers> buffers_;
  // kOverlapped
  Lane receive_activations_, send_activations_, receive_gradients_, send_gradients_;
  // kBlocking
  StreamId stream_ = 0;
  Index communicator_ = program::kNone;
  Index before_ = program::kNone, after_ = program::kNone;  // events
  std::vector<Index> drained_;                              // events by stream
  std::vector<program::Message> messages_;                  // of the exchange that is made
  std::vector<program::BufferUse> uses_;
  std::size_t posted_ = 0;  // passes whose receive has been posted
};

}  // namespace stepcast::lowering
