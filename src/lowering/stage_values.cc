#include "src/lowering/stage_values.h"

#include "src/lowering/effects.h"

namespace stepcast::lowering {

using program::kNone;

namespace {

constexpr Bytes kValue(4);

}  // namespace

void StageValues::WritePrologue(int slots) {
  if (stages_ == 1 || !builder_.describes_data_flow()) return;
  slots_ = slots;
  values_ =
      builder_.AddBuffer("values of passes", (slots + 1) * kValue, program::Category::kWorkspace);
  builder_.Allocate(program::Program::kComputeStream, values_);
}

program::Elements StageValues::Value(int at) const { return At(values_, at, DataType::kFp32); }

program::Elements StageValues::seed() const { return on() ? Value(slots_) : program::Elements(); }

program::Elements StageValues::Carried(Index received) {
  if (received == kNone || builder_.SizeOf(received) < kValue) return {};
  return At(received, 0, DataType::kFp32);
}

void StageValues::Mix(int target, program::Elements received, program::Elements also, int salt) {
  const program::Elements place = Value(target);
  builder_.Use(Writes(place.buffer, place.offset, kValue));
  for (const program::Elements& read : {received, also}) {
    if (read.buffer != kNone) builder_.Use(Reads(read.buffer, read.offset, kValue));
  }
  builder_.With({.kind = program::EffectKind::kMix,
                 .target = place,
                 .source = received,
                 .states = also,
                 .elements = 1,
                 .first_element = salt});
}

void StageValues::HandOn(int value, Index sent) {
  if (sent == kNone || builder_.SizeOf(sent) < kValue) return;
  const program::Elements place = Value(value);
  builder_.Use(Reads(place.buffer, place.offset, kValue));
  builder_.With(Move(At(sent, 0, DataType::kFp32), place, 1));
}

void StageValues::BeginForward(int slot, Index received) {
  if (on()) Mix(slot, Carried(received), {}, stage_);
}
void StageValues::EndForward(int slot, Index sent) {
  if (on()) HandOn(slot, sent);
}
void StageValues::BeginBackward(int slot, Index received) {
  if (!on()) return;
  // The last stage turns round.
  const bool turns = stage_ + 1 == stages_;
  Mix(slots_, turns ? Value(slot) : Carried(received), Value(slot), stages_ + stage_);
}
void StageValues::EndBackward(Index sent) {
  if (on()) HandOn(slots_, sent);
}

}  // namespace stepcast::lowering
