#include "src/lowering/passes.h"
#include "src/lowering/step_parts.h"

namespace stepcast::lowering {

using program::Elements;
using program::kNone;

namespace {

constexpr Bytes kWord(4);

}  // namespace

void PassValues::WritePrologue(int words, bool communicates, bool splits) {
  if ((place_.chunks == 1 && !communicates) || !builder_.describes_data_flow()) return;
  in_flight_ = words;
  splits_ = splits;
  words_ = builder_.AddBuffer("values of passes", (words + (splits ? words : 1)) * kWord,
                              program::Category::kWorkspace);
  builder_.Allocate(program::Program::kComputeStream, words_);
}

Elements PassValues::Word(int at) const { return At(words_, at, DataType::kFp32); }

Elements PassValues::seed() const { return on() ? Word(present_) : Elements(); }

Elements PassValues::Carried(Index received) {
  if (received == kNone || builder_.SizeOf(received) < kWord) return {};
  return At(received, 0, DataType::kFp32);
}

void PassValues::Mix(Elements received, Elements also, std::int64_t salt) {
  const Elements word = Word(present_);
  builder_.Use(Writes(word.buffer, word.offset, kWord));
  for (const Elements& read : {received, also}) {
    if (read.buffer != kNone) builder_.Use(Reads(read.buffer, read.offset, kWord));
  }
  builder_.With({.kind = program::EffectKind::kMix,
                 .target = word,
                 .source = received,
                 .states = also,
                 .elements = 1,
                 .first_element = salt,
                 .batch_part = place_.batch_part});
}

void PassValues::HandOn(Index sent) {
  if (!on() || sent == kNone || builder_.SizeOf(sent) < kWord) return;
  const Elements word = Word(present_);
  builder_.Use(Reads(word.buffer, word.offset, kWord));
  builder_.With(Move(At(sent, 0, DataType::kFp32), word, 1));
}

void PassValues::BeginForward(int chunk, int word, Index received) {
  if (!on()) return;
  present_ = word;
  Mix(Carried(received), {}, chunk);
}

void PassValues::TurnBack(int chunk, int word) {
  if (!on()) return;
  present_ = BackwardOf(word);
  Mix(Word(word), {}, place_.chunks + chunk);
}

void PassValues::BeginBackward(int chunk, Index received) {
  const Elements carried = on() ? Carried(received) : Elements();
  if (carried.buffer != kNone) Mix(carried, Word(present_), chunk);
}

void PassValues::ContinueBackward(int word) { present_ = BackwardOf(word); }

Bytes PassValues::PartOf(const model::ValueUse& use, Index buffer) const {
  return Bytes(builder_.SizeOf(buffer).count() / use.range.pieces / use.parts);
}

void PassValues::Take(const model::ValueUse& use, Index buffer) {
  const Bytes part = PartOf(use, buffer);
  if (!on() || part < kWord) return;
  const int first = use.range.piece * use.parts;
  for (int i = first; i < first + use.parts; ++i) {
    // After a gather, all ranks that hold every part have the same word.
    const bool begins = use.content == model::ValueUse::Content::kGathered && i == 0;
    Mix({.buffer = buffer, .offset = i * part, .type = DataType::kFp32},
        begins ? Elements() : Word(present_), i);
  }
}

void PassValues::Give(const model::ValueUse& use, Index buffer) {
  const Bytes part = PartOf(use, buffer);
  if (!on() || part < kWord) return;
  const Elements word = Word(present_);
  builder_.Use(Reads(word.buffer, word.offset, kWord));
  const int first = use.range.piece * use.parts;
  if (use.content != model::ValueUse::Content::kSum) {
    for (int i = first; i < first + use.parts; ++i) {
      builder_.With(Move({.buffer = buffer, .offset = i * part, .type = DataType::kFp32}, word, 1));
    }
    return;
  }
  const std::int64_t numbers = kWord.count() / SizeOf(use.type);
  for (int i = first; i < first + use.parts; ++i) {
    for (std::int64_t n = 0; n < numbers; ++n) {
      Elements place{.buffer = buffer, .offset = i * part, .type = use.type};
      builder_.With({.kind = program::EffectKind::kGradient,
                     .target = Further(place, n),
                     .source = word,
                     .states = word,
                     .elements = 1,
                     .first_element = (place_.one_word ? 0 : i * numbers) + n});
    }
  }
}

}  // namespace stepcast::lowering
