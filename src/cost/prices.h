#pragma once

#include <span>
#include <vector>

#include "src/base/kernel.h"
#include "src/base/time.h"
#include "src/cost/demand.h"
#include "src/program/program.h"

namespace stepcast::cost {

// The prices of a program's operations, which the simulator uses. price.h creates them.

struct CollectivePrice {
  Demand demand;
  // The algorithm of NCCL: "ring", "tree", "nvls", "nvls_tree", "collnet_direct", "collnet_chain"
  // or "pat". "table": a table of the profile states the time. "none": there is one rank.
  const char* algorithm = "ring";
  const char* protocol = "";  // NCCL's: "LL", "LL128", "Simple"; empty if NCCL is not modeled
  int channels = 0;           // thread blocks, each on a multiprocessor; 0 if not modeled
  // The mean number of bytes that a rank sends on the wire, with the textbook algorithm.
  double wire_bytes_per_rank = 0;
  // The time that the busiest rank's transfer takes at full bandwidth (BandwidthBound). Prices are
  // checked against this bound.
  Time bandwidth_bound;
};

// The price of one end of a message, which an exchange sends or receives.
struct MessagePrice {
  // The demand of the message without other traffic, with the resources at this end. The latency is
  // the longer latency of the two ends, and the work is the larger work.
  Demand demand;
  const char* protocol = "";  // as in CollectivePrice
  int channels = 0;
  Time bandwidth_bound;  // its bytes over the narrowest link of its route
};

// The prices of a program: one price per entry of the program's tables, and the host time to issue
// each kind of instruction.
struct Prices {
  std::vector<Demand> kernels;
  std::vector<CollectivePrice> collectives;
  std::vector<std::vector<MessagePrice>> exchanges;  // [exchange][message]
  std::vector<Demand> copies;
  Time issue_kernel;
  Time issue_copy;
  Time issue_collective;  // also for an exchange, whatever its number of messages
  // The host time before the launch of a kernel, indexed by the kernel's issuer.
  Dispatch dispatch;
  Time IssueOf(const Kernel& kernel) const { return issue_kernel + dispatch[kernel.issuer]; }
  // Returns the host time that an instruction of the program takes.
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

// Ranks that run the same program and have equivalent peers. One of them is simulated for all
// (simulate/simulate.h).
struct RankClass {
  const program::Program* program = nullptr;
  const Prices* prices = nullptr;
  int representative = 0;  // the class's lowest global rank
  // All ranks of the class, in ascending order. They determine the classes of the peers of
  // exchanges. Empty: the class contains the representative, and those peers of its exchanges that
  // are in no class.
  std::span<const int> ranks{};
  // The class's process groups if they differ from the program's, otherwise null.
  const std::vector<program::ProcessGroup>* groups = nullptr;
  bool records = true;  // false: the timeline contains only step ends
  // For each instruction of the step: whether simulate::Recording::kMarked records its operation.
  // Null: none is recorded.
  const std::vector<bool>* marked = nullptr;
  // A part of the step: instructions [begin, end). simulate::HostInfluence covers the instructions
  // issued after `begin`. By default, the part is the whole step.
  struct Part {
    program::Index begin = 0, end = 0;
  } looked_at{};

  // Returns whether the ranks of both classes are of one kind: they run the same program, priced
  // for the same devices and nodes.
  bool IsAlike(const RankClass& other) const {
    return program == other.program && prices == other.prices;
  }
};

}  // namespace stepcast::cost
