#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/all_to_all_loads.h"
#include "src/base/bytes.h"
#include "src/base/collective_kind.h"
#include "src/base/data_type.h"
#include "src/base/kernel.h"
#include "src/base/time.h"
#include "src/parallel/group_layout.h"
#include "src/program/data_flow.h"

// The step program: what one rank submits to its device in one training step. Lowering writes it,
// the validator checks it, the simulator runs it in virtual time, and the runtime runs it on
// hardware. The program consists of streams, communicators, buffers and events, and has no notion
// of ZeRO, buckets or layers.
//
// Semantics
//  * Host order. `prologue` is issued once, then `step` again and again, in order. The rank's CPU
//    spends the issue cost of each instruction (priced in src/cost) and moves on; only
//    kHostWaitEvent makes it wait for the device.
//  * A stream runs its operations in issue order, one at a time. Streams of a rank run
//    concurrently.
//  * A communicator runs its collectives and exchanges in host order, one at a time, independent of
//    the streams on which they were issued. A collective starts when every member of its group has
//    reached it.
//  * An exchange is a set of sends and receives that run as one operation (NCCL's ncclGroupStart
//    and ncclGroupEnd, MPI's Isend, Irecv and Waitall). The k-th send from rank a to rank b on a
//    communicator matches the k-th receive at b from a. A message is transferred when both of its
//    ends have been reached, and the exchange ends when all of its messages are transferred. A
//    single send or receive is an exchange of one message. An all-to-all is a collective: its cost
//    is the cost of all messages together, and a device sends them as one group.
//  * Events follow CUDA: kRecordEvent marks the work issued on a stream so far. A wait refers to
//    the latest record in host order, and is satisfied at once if there was none. A wait for an
//    event of the previous step therefore orders two steps.
//  * Buffers: kAllocate and kRelease take effect in host order, as in a caching allocator, not at
//    device time. A buffer belongs to the stream it was allocated on. Another stream may use
//    the buffer until kRelease on one condition: the owner's stream waits for that use, or
//    kRecordStream names the other stream before the release. (With kRecordStream, the allocator
//    delays the reuse.)
namespace stepcast::program {

// The categories of memory. Buckets of gradients are gradients. The full parameters of a gathered
// unit are communication.
enum class Category : std::uint8_t {
  kParameter,
  kGradient,
  kOptimizer,
  kActivation,
  kCommunication,
  kWorkspace,
};
inline constexpr int kCategories = 6;

// The part of the step to which an operation belongs. Recomputation belongs to backward.
// kBackwardWeight: weight gradients, if a pipeline's schedule separates them from input gradients.
// kCheckpoint: the part of checkpoint saving for which the device waits.
enum class Phase : std::uint8_t { kForward, kBackward, kOptimizer, kCheckpoint, kBackwardWeight };
inline constexpr int kPhases = 5;

enum class Opcode : std::uint8_t {
  kKernel,         // operand: kernels
  kCopy,           // operand: copies
  kCollective,     // operand: collectives
  kExchange,       // operand: exchanges
  kHostTask,       // operand: host_tasks; no stream
  kRecordEvent,    // operand: events
  kWaitEvent,      // operand: events; the stream waits
  kHostWaitEvent,  // operand: events; the host waits; no stream
  kAllocate,       // operand: buffers; `stream` becomes its owner
  kRelease,        // operand: buffers; no stream
  kRecordStream,   // operand: buffers; `stream` also uses it
};

enum class CopyDirection : std::uint8_t { kDeviceToDevice, kHostToDevice, kDeviceToHost };

// The texts of names, by index. All texts are stored in one contiguous string, because a program
// has thousands of names.
class Texts {
 public:
  Index Add(std::string_view text);
  Index size() const { return static_cast<Index>(ends_.size()); }
  std::string_view operator[](Index index) const {
    const std::size_t begin = index == 0 ? 0 : ends_[index - 1];
    return std::string_view(all_).substr(begin, ends_[index] - begin);
  }
  void Clear();

 private:
  std::string all_;
  std::vector<std::uint32_t> ends_;
};

// A name: one text of Program::texts, or two texts joined, such as "model.layers.3" and
// "/parameters". kNone: the name is empty.
struct NameParts {
  Index first = kNone;
  Index second = kNone;
};

struct Stream {
  std::string name{};  // "compute", "all-gather": a track of the trace
};

// A group of ranks that communicate with each other. `ranks` are global rank numbers in group
// order.
struct ProcessGroup {
  std::string name{};  // "data", "shard", "replica"
  std::vector<int> ranks{};
  // The layout of the groups of all ranks; `ranks` is one of these groups. Empty: the other groups
  // are unknown.
  parallel::GroupLayout layout{};

  // Returns the position of a rank in the group, or -1 if the rank is not a member.
  int PositionOf(int rank) const;
};

struct Communicator {
  std::string name{};
  Index group = kNone;
};

struct Buffer {
  NameParts name{};  // Program::NameOf
  Bytes size{};
  Category category = Category::kActivation;
  Bytes padding{};  // the part of `size` that only pads a shard to equal length
};

struct Collective {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  Index communicator = kNone;
  // The size in bytes, as nccl-tests counts it. All-reduce and broadcast: the buffer of each rank.
  // All-gather and reduce-scatter: the full data, which is the group size times the part of each
  // rank. All-to-all: a rank's data for all ranks including itself, which is the group size times
  // the part for each rank. With uneven loads: the data of the rank that sends or receives the
  // most, because that rank determines the cost.
  Bytes bytes{};
  DataType data_type = DataType::kBf16;
  bool average = false;  // the sum is divided by the number of ranks
  // The number of multiprocessors used. 0: copy engines transfer the bytes. Not set: the
  // communication library chooses.
  std::optional<int> multiprocessors{};
  int root = 0;           // broadcast: position in the group of the rank that sends
  AllToAllLoads loads{};  // all-to-all
  friend bool operator==(const Collective&, const Collective&) = default;
};

enum class MessageDirection : std::uint8_t { kSend, kReceive };

// One end of a message that an exchange sends or receives.
struct Message {
  MessageDirection direction = MessageDirection::kSend;
  int peer = 0;  // see Exchange::peers
  Bytes bytes{};
  friend bool operator==(const Message&, const Message&) = default;
};

// How messages identify their peers. kPosition: by position in the communicator's group (stage 3 of
// a pipeline). kDistance: by distance from the rank's own position, modulo the group's size (1: the
// next rank in a ring), so that all ranks of a ring have the same program. All exchanges of a
// communicator use the same method.
enum class PeerNaming : std::uint8_t { kPosition, kDistance };

// A set of sends and receives that run as one operation. The instruction has one use per message,
// in the order of the messages. The use is a read of the sent bytes, or a write of the received
// bytes.
struct Exchange {
  Index communicator = kNone;
  DataType data_type = DataType::kBf16;
  PeerNaming peers = PeerNaming::kPosition;
  std::vector<Message> messages{};
  std::optional<int> multiprocessors{};  // as in Collective

  // Returns the peer's position in a group of `group_size` ranks, as seen from position
  // `own_position`.
  int PeerPosition(const Message& message, int own_position, int group_size) const {
    if (peers == PeerNaming::kPosition) return message.peer;
    const int position = (own_position + message.peer) % group_size;
    return position < 0 ? position + group_size : position;
  }
  friend bool operator==(const Exchange&, const Exchange&) = default;
};

struct Copy {
  CopyDirection direction = CopyDirection::kDeviceToDevice;
  Bytes bytes{};
};

struct HostTask {
  std::string name{};
  Time duration{};
};

struct Event {
  NameParts name{};  // Program::NameOf
};

// The bytes [offset, offset + size) of a buffer that an operation reads or writes.
struct BufferUse {
  Index buffer = kNone;
  bool write = false;  // a write may also read (accumulation)
  Bytes offset{};
  Bytes size{};
};

struct Instruction {
  Opcode opcode = Opcode::kKernel;
  Phase phase = Phase::kForward;
  std::uint16_t stream = 0;  // unused if the opcode has no stream
  Index operand = kNone;     // index in a table that depends on the opcode
  Index first_use = 0;       // uses[first_use, first_use + use_count)
  Index use_count = 0;
  std::uint16_t micro_batch = 0;
  Index label = kNone;  // labels: the layer, unit or bucket; kNone if none
};

struct Program {
  int rank = 0;  // the rank that `groups` belong to
  std::vector<Stream> streams{};
  std::vector<ProcessGroup> groups{};
  std::vector<Communicator> communicators{};
  std::vector<Event> events{};
  std::vector<Buffer> buffers{};
  std::vector<Kernel> kernels{};          // distinct; operations refer to them
  std::vector<Collective> collectives{};  // distinct
  std::vector<Exchange> exchanges{};      // distinct
  std::vector<Copy> copies{};
  std::vector<HostTask> host_tasks{};
  std::vector<BufferUse> uses{};
  std::vector<std::string> labels{};
  Texts texts{};

  std::vector<Instruction> prologue{};
  std::vector<Instruction> step{};

  // The effects of the operations on the values of training. Empty unless lowering was asked to
  // write the effects.
  DataFlow data_flow{};

  // The stream of the training computation, which determines phases. This compute stream always has
  // the number 0.
  static constexpr std::uint16_t kComputeStream = 0;

  std::string NameOf(const Buffer& buffer) const { return Text(buffer.name); }
  std::string NameOf(const Event& event) const { return Text(event.name); }

 private:
  std::string Text(const NameParts& name) const;
};

// These functions return names for the dump, the trace and the JSON output.
const char* Name(Category category);           // "parameters", "gradients", "optimizer", ...
const char* Name(Phase phase);                 // "forward", "backward", "optimizer"
const char* Name(Opcode opcode);               // "kernel", "wait-event", ...
const char* Name(CopyDirection direction);     // "device-to-device", ...
const char* Name(MessageDirection direction);  // "send", "receive"

}  // namespace stepcast::program
