#include "src/memory/requests.h"

#include <algorithm>

namespace stepcast::memory {

using program::Index;
using program::Instruction;
using program::LongerStep;
using program::Opcode;
using program::Program;

namespace {

void AddTo(std::vector<Request>& requests, const Instruction& instruction) {
  if (!ChangesMemory(instruction)) return;
  requests.push_back({.buffer = instruction.operand,
                      .stream = instruction.stream,
                      .allocates = instruction.opcode == Opcode::kAllocate});
}

}  // namespace

void Requests::Take(const Program& program, const std::optional<LongerStep>& longer) {
  streams = program.streams.size();
  buffers.clear();
  for (const program::Buffer& buffer : program.buffers) {
    buffers.push_back({buffer.size, buffer.padding, buffer.category});
  }
  prologue.clear();
  step.clear();
  sections.clear();
  for (const Instruction& instruction : program.prologue) AddTo(prologue, instruction);
  std::uint16_t micro_batch = 0;
  for (const Instruction& instruction : program.step) {
    if (!ChangesMemory(instruction)) continue;
    if (sections.empty() || instruction.micro_batch != micro_batch) {
      sections.push_back({.first = step.size()});
      micro_batch = instruction.micro_batch;
    }
    AddTo(step, instruction);
    sections.back().last = step.size();
  }
  for (Section& section : sections) {
    const auto own = Of(section);
    const auto allocations = std::count_if(
        own.begin(), own.end(), [](const Request& request) { return request.allocates; });
    section.balanced = 2 * static_cast<std::size_t>(allocations) == own.size();
    if (!section.balanced) continue;
    while (!Same(sections[section.kind], section)) ++section.kind;
  }
  if (longer) TakePeriod(program, *longer);
}

void Requests::TakePeriod(const Program& program, const LongerStep& longer) {
  owners = OwnersOf(program);
  const auto requests_before = [&](Index instruction) {
    return static_cast<std::size_t>(
        std::count_if(program.step.begin(), program.step.begin() + instruction, ChangesMemory));
  };
  period_begin = requests_before(longer.begin);
  period_end = requests_before(longer.end);
}

bool Requests::Same(const Section& a, const Section& b) const {
  const auto of_a = Of(a), of_b = Of(b);
  return std::equal(of_a.begin(), of_a.end(), of_b.begin(), of_b.end());
}

}  // namespace stepcast::memory
