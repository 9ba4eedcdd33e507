#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/program/program.h"

// Writes small programs in tests. Each call adds one instruction, in host order. Tables grow as
// needed, and names are generated ("stream 0", "event 3").
namespace stepcast::program {

class TestProgram {
 public:
  explicit TestProgram(int streams) {
    for (int s = 0; s < streams; ++s) {
      program_.streams.push_back({s == 0 ? "compute" : "side" + std::to_string(s)});
    }
  }

  // Starts the step. Instructions that are added later belong to it.
  TestProgram& Step() {
    in_step_ = true;
    return *this;
  }
  TestProgram& Label(const std::string& label) {
    program_.labels.push_back(label);
    label_ = static_cast<Index>(program_.labels.size() - 1);
    return *this;
  }

  Index AddBuffer(const std::string& name, Bytes size, Category category = Category::kActivation) {
    program_.buffers.push_back({{program_.texts.Add(name)}, size, category, Bytes(0)});
    return static_cast<Index>(program_.buffers.size() - 1);
  }
  Index AddEvent(const std::string& name) {
    program_.events.push_back({{program_.texts.Add(name)}});
    return static_cast<Index>(program_.events.size() - 1);
  }
  Index AddCommunicator(const std::string& name, std::vector<int> ranks) {
    program_.groups.push_back({name, std::move(ranks)});
    program_.communicators.push_back({name, static_cast<Index>(program_.groups.size() - 1)});
    return static_cast<Index>(program_.communicators.size() - 1);
  }
  Index AddCollective(CollectiveKind kind, Index communicator, Bytes bytes,
                      DataType type = DataType::kBf16) {
    program_.collectives.push_back({kind, communicator, bytes, type});
    return static_cast<Index>(program_.collectives.size() - 1);
  }
  Index AddExchange(Index communicator, std::vector<Message> messages,
                    PeerNaming peers = PeerNaming::kPosition) {
    program_.exchanges.push_back({communicator, DataType::kBf16, peers, std::move(messages)});
    return static_cast<Index>(program_.exchanges.size() - 1);
  }
  static Message Send(int peer, Bytes bytes) { return {MessageDirection::kSend, peer, bytes}; }
  static Message Receive(int peer, Bytes bytes) {
    return {MessageDirection::kReceive, peer, bytes};
  }
  Index AddKernel(const std::string& name) {
    stepcast::Kernel kernel;
    kernel.name = name;
    kernel.kind = KernelKind::kGiven;
    program_.kernels.push_back(kernel);
    return static_cast<Index>(program_.kernels.size() - 1);
  }

  BufferUse Read(Index buffer) const { return Range(buffer, false); }
  BufferUse Write(Index buffer) const { return Range(buffer, true); }
  static BufferUse Read(Index buffer, std::int64_t begin, std::int64_t end) {
    return {buffer, false, Bytes(begin), Bytes(end - begin)};
  }
  static BufferUse Write(Index buffer, std::int64_t begin, std::int64_t end) {
    return {buffer, true, Bytes(begin), Bytes(end - begin)};
  }

  // Adds a kernel, and an operation that runs it.
  TestProgram& Kernel(int stream, const std::string& name, std::vector<BufferUse> uses = {}) {
    return Run(stream, AddKernel(name), std::move(uses));
  }
  TestProgram& Run(int stream, Index kernel, std::vector<BufferUse> uses = {}) {
    return Add(Opcode::kKernel, stream, kernel, std::move(uses));
  }
  TestProgram& Copy(int stream, CopyDirection direction, Bytes bytes,
                    std::vector<BufferUse> uses = {}) {
    program_.copies.push_back({direction, bytes});
    return Add(Opcode::kCopy, stream, static_cast<Index>(program_.copies.size() - 1),
               std::move(uses));
  }
  TestProgram& Communicate(int stream, Index collective, std::vector<BufferUse> uses = {}) {
    return Add(Opcode::kCollective, stream, collective, std::move(uses));
  }
  TestProgram& Exchange(int stream, Index exchange, std::vector<BufferUse> uses = {}) {
    return Add(Opcode::kExchange, stream, exchange, std::move(uses));
  }
  TestProgram& HostTask(const std::string& name, Time duration, std::vector<BufferUse> uses = {}) {
    program_.host_tasks.push_back({name, duration});
    return Add(Opcode::kHostTask, 0, static_cast<Index>(program_.host_tasks.size() - 1),
               std::move(uses));
  }
  TestProgram& Record(int stream, Index event) { return Add(Opcode::kRecordEvent, stream, event); }
  TestProgram& Wait(int stream, Index event) { return Add(Opcode::kWaitEvent, stream, event); }
  TestProgram& HostWait(Index event) { return Add(Opcode::kHostWaitEvent, 0, event); }
  TestProgram& Allocate(int stream, Index buffer) { return Add(Opcode::kAllocate, stream, buffer); }
  TestProgram& Release(Index buffer) { return Add(Opcode::kRelease, 0, buffer); }
  TestProgram& RecordStream(int stream, Index buffer) {
    return Add(Opcode::kRecordStream, stream, buffer);
  }

  TestProgram& Add(Opcode opcode, int stream, Index operand, std::vector<BufferUse> uses = {}) {
    Instruction instruction;
    instruction.opcode = opcode;
    instruction.stream = static_cast<std::uint16_t>(stream);
    instruction.operand = operand;
    instruction.label = label_;
    instruction.first_use = static_cast<Index>(program_.uses.size());
    instruction.use_count = static_cast<Index>(uses.size());
    program_.uses.insert(program_.uses.end(), uses.begin(), uses.end());
    (in_step_ ? program_.step : program_.prologue).push_back(instruction);
    return *this;
  }

  Program& program() { return program_; }
  const Program& program() const { return program_; }

 private:
  BufferUse Range(Index buffer, bool write) const {
    return {buffer, write, Bytes(0), program_.buffers[buffer].size};
  }

  Program program_;
  bool in_step_ = false;
  Index label_ = kNone;
};

}  // namespace stepcast::program
