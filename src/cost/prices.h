#pragma once

#include <span>
#include <vector>

#include "src/base/kernel.h"
#include "src/base/time.h"
#include "src/cost/demand.h"
#include "src/program/program.h"

namespace stepcast::cost {

// The prices of a program's operations, as computed by price.h and read by the simulator.

struct CollectivePrice {
  Demand demand;
  // NCCL's algorithm: "ring", "tree", "nvls", "nvls_tree", "collnet_direct", "collnet_chain" or
  // "pat". "table" means that the time is from a table of the profile. "none" means that there is
  // only one rank.
  const char* algorithm = "ring";
  const char* protocol = "";  // "LL", "LL128", "Simple"; empty if NCCL is not modeled
  int channels = 0;           // thread blocks, each on one multiprocessor; 0 if not modeled
  // The mean number of bytes that a rank sends with the textbook algorithm.
  double wire_bytes_per_rank = 0;
  // A lower bound for the time, against which prices are checked: the transfer of the busiest rank
  // at full bandwidth (BandwidthBound).
  Time bandwidth_bound;
};

// The price of a message at its sender or receiver, as part of an exchange.
struct MessagePrice {
  // The uncontended demand of the message, with the resources of this rank. Latency and work are
  // the maxima over sender and receiver.
  Demand demand;
  const char* protocol = "";  // as in CollectivePrice
  int channels = 0;
  Time bandwidth_bound;  // bytes of the message / bandwidth of the slowest link on its route
};

// The prices of a program: one price per entry of the program's tables, and the host time to issue
// each kind of instruction.
struct Prices {
  std::vector<Demand> kernels;
  std::vector<CollectivePrice> collectives;
  std::vector<std::vector<MessagePrice>> exchanges;  // indexed by exchange and message
  std::vector<Demand> copies;
  Time issue_kernel;
  Time issue_copy;
  Time issue_collective;  // also for a complete exchange
  // The host time before the launch of a kernel, by the code that issues the kernel.
  Dispatch dispatch;
  Time IssueOf(const Kernel& kernel) const { return issue_kernel + dispatch[kernel.issuer]; }
  // Returns the host time to issue an instruction of the program.
  Time IssueOf(const program::Program& program, const program::Instruction& instruction) const {
    switch (instruction.opcode) {
      case program::Opcode::kKernel:
        return IssueOf(program.kernels[instruction.operand]);
      case program::Opcode::kCopy:
        return issue_copy;
      case program::Opcode::kCollective:
      case program::Opcode::kExchange:
        return issue_collective;
      case program::Opcode::kHostTask:
        return program.host_tasks[instruction.operand].duration;
      default:
        return {};
    }
  }
};

// Ranks that run the same program and have equivalent peers. One rank is simulated for the complete
// class (simulate/simulate.h).
struct RankClass {
  const program::Program* program = nullptr;
  const Prices* prices = nullptr;
  int representative = 0;  // lowest global rank of the class
  // All ranks of the class, in ascending order. These ranks determine the classes of the peers in
  // exchanges. If empty, the class contains the representative and the peers of its exchanges that
  // are in no other class.
  std::span<const int> ranks{};
  // The class's process groups if they differ from the program's, otherwise null.
  const std::vector<program::ProcessGroup>* groups = nullptr;
  bool records = true;  // false: the timeline has only step ends
  // For each instruction of the step, whether simulate::Recording::kMarked records it. Null: no
  // instruction is recorded.
  const std::vector<bool>* marked = nullptr;
  // A part of the step: instructions [begin, end). simulate::HostInfluence considers only
  // instructions issued after `begin`. The default is the complete step.
  struct Part {
    program::Index begin = 0, end = 0;
  } looked_at{};

  // Returns whether both classes run the same program on the same kind of devices and nodes.
  bool IsAlike(const RankClass& other) const {
    return program == other.program && prices == other.prices;
  }
};

}  // namespace stepcast::cost
