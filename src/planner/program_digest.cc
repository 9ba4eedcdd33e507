#include "src/planner/program_digest.h"

#include <bit>
#include <cstdint>

#include "fmt/format.h"

namespace stepcast::planner {
namespace {

using program::Instruction;

// Two chains of 64 bits with different odd factors; each step is a bijection of the chain for a
// given number and of the number for a given chain (multiplication by an odd number, and a rotation
// and shift that mix high bits into low ones), so that two contents that differ in one number
// differ in both chains.
class Mixer {
 public:
  void Add(std::uint64_t number) {
    one_ = std::rotl((one_ ^ number) * 0x9e3779b97f4a7c15, 29);
    one_ ^= one_ >> 32;
    other_ = std::rotl((other_ + number) * 0xc2b2ae3d27d4eb4f, 31);
    other_ ^= other_ >> 29;
  }
  void Add(std::int64_t number) { Add(static_cast<std::uint64_t>(number)); }
  void Add(std::uint32_t a, std::uint32_t b) { Add(std::uint64_t{a} << 32 | b); }
  void Add(Time time) { Add(time.picoseconds()); }
  void Add(Bytes bytes) { Add(bytes.count()); }
  void Add(double number) { Add(std::bit_cast<std::uint64_t>(number)); }
  void Add(const cost::Demand& demand) {
    Add(demand.latency);
    Add(demand.work);
    for (const double share : demand.share) Add(share);
    Add(static_cast<double>(demand.occupancy));
  }
  std::string Text() const { return fmt::format("{:016x}{:016x}", one_, other_); }

 private:
  std::uint64_t one_ = 0x243f6a8885a308d3, other_ = 0x13198a2e03707344;
};

void AddInstructions(const program::Program& program, const std::vector<Instruction>& instructions,
                     Mixer& mixer) {
  mixer.Add(std::uint64_t{instructions.size()});
  for (const Instruction& instruction : instructions) {
    mixer.Add(std::uint32_t{instruction.stream} << 16 |
                  static_cast<std::uint32_t>(instruction.opcode) << 8 |
                  static_cast<std::uint32_t>(instruction.phase),
              instruction.operand);
    mixer.Add(std::uint64_t{instruction.use_count});
    for (program::Index i = 0; i < instruction.use_count; ++i) {
      const program::BufferUse& use = program.uses[instruction.first_use + i];
      mixer.Add(use.buffer, use.write ? 1 : 0);
    }
  }
}

}  // namespace

std::string DigestOf(const program::Program& program, const Repeated& repeated,
                     const cost::Prices& prices) {
  Mixer mixer;
  for (const std::uint64_t number :
       {std::uint64_t{program.streams.size()}, std::uint64_t{program.events.size()},
        std::uint64_t{program.communicators.size()}, std::uint64_t{program.buffers.size()},
        std::uint64_t{program.kernels.size()}, std::uint64_t{program.collectives.size()},
        std::uint64_t{program.exchanges.size()}, std::uint64_t{program.copies.size()},
        std::uint64_t{program.host_tasks.size()}, std::uint64_t{repeated.first},
        std::uint64_t{repeated.last}, static_cast<std::uint64_t>(repeated.more)}) {
    mixer.Add(number);
  }
  for (const program::Buffer& buffer : program.buffers) {
    mixer.Add(buffer.size);
    mixer.Add(static_cast<std::uint64_t>(buffer.category));
  }
  for (std::size_t i = 0; i < program.kernels.size(); ++i) {
    mixer.Add(prices.kernels[i]);
    mixer.Add(prices.IssueOf(program.kernels[i]));
  }
  for (std::size_t i = 0; i < program.collectives.size(); ++i) {
    mixer.Add(prices.collectives[i].demand);
    mixer.Add(std::uint64_t{program.collectives[i].communicator});
  }
  for (std::size_t i = 0; i < program.exchanges.size(); ++i) {
    const program::Exchange& exchange = program.exchanges[i];
    mixer.Add(exchange.communicator, static_cast<std::uint32_t>(exchange.peers));
    for (std::size_t m = 0; m < exchange.messages.size(); ++m) {
      mixer.Add(static_cast<std::uint32_t>(exchange.messages[m].direction),
                static_cast<std::uint32_t>(exchange.messages[m].peer));
      mixer.Add(prices.exchanges[i][m].demand);
    }
  }
  for (const program::Communicator& communicator : program.communicators) {
    for (const int rank : program.groups[communicator.group].ranks) mixer.Add(std::int64_t{rank});
  }
  for (std::size_t i = 0; i < program.copies.size(); ++i) {
    mixer.Add(prices.copies[i]);
    mixer.Add(static_cast<std::uint64_t>(program.copies[i].direction));
  }
  for (const program::HostTask& task : program.host_tasks) mixer.Add(task.duration);
  mixer.Add(prices.issue_copy);
  mixer.Add(prices.issue_collective);
  AddInstructions(program, program.prologue, mixer);
  AddInstructions(program, program.step, mixer);
  return mixer.Text();
}

}  // namespace stepcast::planner
