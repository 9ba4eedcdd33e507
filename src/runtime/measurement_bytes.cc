#include "src/runtime/measurement_bytes.h"

#include <algorithm>
#include <cstdint>

#include "src/messaging/byte_stream.h"

namespace stepcast::runtime {
namespace {

constexpr std::string_view kWords = "stepcast measurement";
constexpr std::uint64_t kVersion = 1;

// Writes or reads each value as the difference to the previous one. Both directions share this
// code, so that they cannot disagree.
class Writing {
 public:
  template <typename T>
  void List(std::vector<T>& list) {
    writer_.Number(list.size());
  }
  void Value(Time& time, Time& last) {
    writer_.Signed(time.picoseconds() - last.picoseconds());
    last = time;
  }
  void Value(std::uint32_t& number, std::uint32_t& last) {
    writer_.Signed(std::int64_t{number} - std::int64_t{last});
    last = number;
  }
  void Value(Bytes& bytes) { writer_.Signed(bytes.count()); }
  messaging::ByteWriter& writer() { return writer_; }

 private:
  messaging::ByteWriter writer_;
};

class Reading {
 public:
  explicit Reading(std::string_view bytes) : reader_(bytes) {}

  template <typename T>
  void List(std::vector<T>& list) {
    list.resize(reader_.Count());
  }
  void Value(Time& time, Time& last) {
    // Wraps around instead of overflowing if the bytes are invalid.
    const auto sum = static_cast<std::uint64_t>(last.picoseconds()) +
                     static_cast<std::uint64_t>(reader_.Signed());
    last = time = Picoseconds(static_cast<std::int64_t>(sum));
  }
  void Value(std::uint32_t& number, std::uint32_t& last) {
    last = number = static_cast<std::uint32_t>(last + static_cast<std::uint64_t>(reader_.Signed()));
  }
  void Value(Bytes& bytes) { bytes = Bytes(reader_.Signed()); }
  messaging::ByteReader& reader() { return reader_; }

 private:
  messaging::ByteReader reader_;
};

template <typename Direction>
void Pass(Direction& direction, Measurement& measurement) {
  program::Timeline& timeline = measurement.timeline;
  std::uint32_t instruction = 0;
  std::uint32_t step = 0;
  Time last;
  direction.List(timeline.operations);
  for (program::OperationRecord& record : timeline.operations) {
    direction.Value(record.instruction, instruction);
    direction.Value(record.step, step);
    direction.Value(record.issued, last);
    direction.Value(record.ready, last);
    direction.Value(record.start, last);
    direction.Value(record.end, last);
  }
  direction.List(timeline.waits);
  for (program::WaitRecord& record : timeline.waits) {
    direction.Value(record.instruction, instruction);
    direction.Value(record.step, step);
    direction.Value(record.start, last);
    direction.Value(record.end, last);
  }
  direction.List(timeline.memory);
  for (program::MemoryRecord& record : timeline.memory) {
    direction.Value(record.instruction, instruction);
    direction.Value(record.step, step);
    direction.Value(record.time, last);
  }
  direction.List(timeline.step_ends);
  for (Time& end : timeline.step_ends) direction.Value(end, last);
  direction.Value(measurement.memory.peak);
  direction.Value(measurement.memory.reserved);
  direction.Value(measurement.memory.outside);
}

}  // namespace

std::string ToBytes(const Measurement& measurement) {
  Writing writing;
  writing.writer().Text(kWords);
  writing.writer().Number(kVersion);
  Measurement copy = measurement;
  Pass(writing, copy);
  return writing.writer().Take();
}

Attempt<Measurement> ToMeasurement(std::string_view bytes) {
  Reading reading(bytes);
  if (reading.reader().Text() != kWords) {
    return tl::unexpected(Failure{"the received bytes are not a measurement"});
  }
  if (const auto version = reading.reader().Number(); version != kVersion) {
    return tl::unexpected(Failure{"the measurement was written by another version of stepcast"});
  }
  Measurement measurement;
  Pass(reading, measurement);
  if (reading.reader().bad() || !reading.reader().at_end()) {
    return tl::unexpected(Failure{"the measurement is incomplete"});
  }
  return measurement;
}

Attempt<void> CheckMeasurement(const Measurement& measurement, std::size_t instructions,
                               std::size_t steps) {
  const program::Timeline& timeline = measurement.timeline;
  const auto known = [&](const auto& record) { return record.instruction < instructions; };
  const bool right = timeline.step_ends.size() == steps &&
                     std::all_of(timeline.operations.begin(), timeline.operations.end(),
                                 [&](const program::OperationRecord& record) {
                                   return known(record) && record.step < steps;
                                 }) &&
                     std::all_of(timeline.waits.begin(), timeline.waits.end(), known) &&
                     std::all_of(timeline.memory.begin(), timeline.memory.end(), known);
  if (!right) return tl::unexpected(Failure{"the measurement belongs to another program"});
  return {};
}

}  // namespace stepcast::runtime
