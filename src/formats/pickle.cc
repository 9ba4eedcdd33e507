#include "src/formats/pickle.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <utility>

#include "fmt/format.h"

namespace stepcast::formats {

using Kind = PickleValue::Kind;

const PickleValue* PickleValue::Find(std::string_view key) const {
  if (kind != Kind::kMapping) return nullptr;
  for (std::size_t i = 0; i + 1 < std::min(items.size(), 2 * kMostKeys); i += 2) {
    if (items[i]->kind == Kind::kText && items[i]->text == key) return items[i + 1];
  }
  return nullptr;
}

namespace {

// Each takes some 100 bytes. The largest input file, 16 MiB, has half as many.
constexpr std::size_t kMostValues = 5'000'000;

enum class Fault : std::uint8_t { kCutOff, kMalformed, kNotData, kTooLarge };

}  // namespace

// Executes the opcodes on a stack of values; imports and calls are refused.
class PickleReader {
 public:
  explicit PickleReader(std::string_view bytes) : bytes_(bytes) {}

  std::optional<Fault> Run(Pickle& pickle) {
    pickle_ = &pickle;
    while (!done_) {
      opcode_at_ = at_;
      if (at_ == bytes_.size()) return Fault::kCutOff;
      const auto opcode = static_cast<unsigned char>(bytes_[at_++]);
      if (const auto fault = Execute(opcode)) return fault;
      if (pickle.values_.size() > kMostValues) return Fault::kTooLarge;
    }
    return std::nullopt;
  }
  std::size_t opcode_at() const { return opcode_at_; }

 private:
  using Step = std::optional<Fault>;

  Step Execute(unsigned char opcode) {
    switch (opcode) {
      case 0x80:  // PROTO
        return Skip(1);
      case 0x95:  // FRAME
        return Skip(8);
      case '.':
        return Stop();
      case 'N':
        return Push(PickleValue());
      case 0x88:
        return Push({.kind = Kind::kBoolean, .integer = 1});
      case 0x89:
        return Push({.kind = Kind::kBoolean});
      case 'K':
        return Integer(1, false);
      case 'M':
        return Integer(2, false);
      case 'J':
        return Integer(4, true);
      case 0x8a:
        return Long(1);
      case 0x8b:
        return Long(4);
      case 'G':
        return Real();
      case 0x8c:  // SHORT_BINUNICODE
      case 'C':   // SHORT_BINBYTES
      case 'U':   // SHORT_BINSTRING
        return Text(1);
      case 'X':  // BINUNICODE
      case 'B':  // BINBYTES
      case 'T':  // BINSTRING
        return Text(4);
      case 0x8d:  // BINUNICODE8
      case 0x8e:  // BINBYTES8
      case 0x96:  // BYTEARRAY8
        return Text(8);
      default:
        return ExecuteOnStack(opcode);
    }
  }

  Step ExecuteOnStack(unsigned char opcode) {
    switch (opcode) {
      case '}':
        return Push({.kind = Kind::kMapping});
      case ']':
      case ')':
      case 0x8f:  // EMPTY_SET
        return Push({.kind = Kind::kSequence});
      case 0x85:
        return Tuple(1);
      case 0x86:
        return Tuple(2);
      case 0x87:
        return Tuple(3);
      case '(':
        marks_.push_back(stack_.size());
        return std::nullopt;
      case 't':
      case 'l':
      case 0x91:  // FROZENSET
        return FromMark(Kind::kSequence);
      case 'd':
        return FromMark(Kind::kMapping);
      case 'a':
        return Append(1, Kind::kSequence);
      case 's':
        return Append(2, Kind::kMapping);
      case 'e':
      case 0x90:  // ADDITEMS
        return AppendFromMark(Kind::kSequence);
      case 'u':
        return AppendFromMark(Kind::kMapping);
      case '0':
        return Pop();
      case '2':
        return stack_.empty() ? Step(Fault::kMalformed) : PushKnown(stack_.back());
      default:
        return ExecuteOnMemo(opcode);
    }
  }

  Step ExecuteOnMemo(unsigned char opcode) {
    switch (opcode) {
      case 0x94:  // MEMOIZE
        return Keep(memo_.size());
      case 'q':
        return WithNumber(1, [&](std::uint64_t key) { return Keep(key); });
      case 'r':
        return WithNumber(4, [&](std::uint64_t key) { return Keep(key); });
      case 'h':
        return WithNumber(1, [&](std::uint64_t key) { return Recall(key); });
      case 'j':
        return WithNumber(4, [&](std::uint64_t key) { return Recall(key); });
      case 'c':   // GLOBAL
      case 'i':   // INST
      case 'o':   // OBJ
      case 'R':   // REDUCE
      case 'b':   // BUILD
      case 'P':   // PERSID
      case 'Q':   // BINPERSID
      case 0x81:  // NEWOBJ
      case 0x82:  // EXT1
      case 0x83:  // EXT2
      case 0x84:  // EXT4
      case 0x92:  // NEWOBJ_EX
      case 0x93:  // STACK_GLOBAL
      case 0x97:  // NEXT_BUFFER
      case 0x98:  // READONLY_BUFFER
        return Fault::kNotData;
      default:
        return Fault::kMalformed;
    }
  }

  std::optional<std::string_view> Bytes(std::uint64_t count) {
    if (count > bytes_.size() - at_) return std::nullopt;
    const std::string_view taken = bytes_.substr(at_, static_cast<std::size_t>(count));
    at_ += static_cast<std::size_t>(count);
    return taken;
  }

  // A little-endian unsigned integer.
  std::optional<std::uint64_t> Number(std::size_t size) {
    const auto bytes = Bytes(size);
    if (!bytes) return std::nullopt;
    std::uint64_t number = 0;
    for (std::size_t i = size; i-- > 0;) {
      number = number << 8U | static_cast<unsigned char>((*bytes)[i]);
    }
    return number;
  }

  Step Skip(std::size_t size) { return Bytes(size) ? Step() : Step(Fault::kCutOff); }

  Step Stop() {
    if (stack_.size() != 1 || !marks_.empty()) return Fault::kMalformed;
    pickle_->root_ = stack_.back();
    done_ = true;
    return std::nullopt;
  }

  Step Push(PickleValue value) {
    pickle_->values_.push_back(std::move(value));
    return PushKnown(&pickle_->values_.back());
  }
  Step PushKnown(PickleValue* value) {
    stack_.push_back(value);
    return std::nullopt;
  }

  Step Integer(std::size_t size, bool with_sign) {
    const auto number = Number(size);
    if (!number) return Fault::kCutOff;
    auto value = static_cast<std::int64_t>(*number);
    if (with_sign) value = static_cast<std::int32_t>(static_cast<std::uint32_t>(*number));
    return Push({.kind = Kind::kInteger, .integer = value});
  }

  // Two's complement of any length; values beyond 64 bits become the nearest.
  Step Long(std::size_t size) {
    const auto length = Number(size);
    const auto bytes = length ? Bytes(*length) : std::nullopt;
    if (!bytes) return Fault::kCutOff;
    const bool negative = !bytes->empty() && (bytes->back() & '\x80') != 0;
    std::uint64_t value = negative ? ~std::uint64_t{0} : 0;
    bool fits = true;
    for (std::size_t i = bytes->size(); i-- > 0;) {
      const auto byte = static_cast<unsigned char>((*bytes)[i]);
      if (i >= sizeof(value)) {
        fits = fits && byte == (negative ? 0xff : 0);
      } else {
        value = value << 8U | byte;
      }
    }
    const auto number = static_cast<std::int64_t>(value);
    fits = fits && (bytes->empty() || (number < 0) == negative);
    return Push({.kind = Kind::kInteger,
                 .integer = fits       ? number
                            : negative ? std::numeric_limits<std::int64_t>::min()
                                       : std::numeric_limits<std::int64_t>::max()});
  }

  Step Real() {
    const auto bytes = Bytes(sizeof(double));  // big-endian
    if (!bytes) return Fault::kCutOff;
    std::uint64_t bits = 0;
    for (const char byte : *bytes) bits = bits << 8U | static_cast<unsigned char>(byte);
    return Push({.kind = Kind::kReal, .real = std::bit_cast<double>(bits)});
  }

  Step Text(std::size_t size) {
    const auto length = Number(size);
    const auto bytes = length ? Bytes(*length) : std::nullopt;
    if (!bytes) return Fault::kCutOff;
    return Push({.kind = Kind::kText, .text = std::string(*bytes)});
  }

  // Pops the values above the last mark, or the last `count`.
  std::optional<std::vector<const PickleValue*>> Take(std::size_t from) {
    if (from > stack_.size()) return std::nullopt;
    std::vector<const PickleValue*> taken(stack_.begin() + static_cast<std::ptrdiff_t>(from),
                                          stack_.end());
    stack_.resize(from);
    return taken;
  }
  std::optional<std::vector<const PickleValue*>> TakeLast(std::size_t count) {
    if (count > stack_.size() - Floor()) return std::nullopt;
    return Take(stack_.size() - count);
  }
  std::optional<std::vector<const PickleValue*>> TakeFromMark() {
    if (marks_.empty()) return std::nullopt;
    const std::size_t from = marks_.back();
    marks_.pop_back();
    return Take(from);
  }
  // Values below the last mark must not be popped.
  std::size_t Floor() const { return marks_.empty() ? 0 : marks_.back(); }

  Step Make(Kind kind, std::optional<std::vector<const PickleValue*>> items) {
    if (!items || (kind == Kind::kMapping && items->size() % 2 != 0)) return Fault::kMalformed;
    return Push({.kind = kind, .items = *std::move(items)});
  }
  Step Tuple(std::size_t count) { return Make(Kind::kSequence, TakeLast(count)); }
  Step FromMark(Kind kind) { return Make(kind, TakeFromMark()); }

  Step AddTo(Kind kind, const std::optional<std::vector<const PickleValue*>>& items) {
    if (!items || stack_.size() <= Floor() || stack_.back()->kind != kind ||
        (kind == Kind::kMapping && items->size() % 2 != 0)) {
      return Fault::kMalformed;
    }
    std::vector<const PickleValue*>& all = stack_.back()->items;
    all.insert(all.end(), items->begin(), items->end());
    return std::nullopt;
  }
  Step Append(std::size_t count, Kind kind) { return AddTo(kind, TakeLast(count)); }
  Step AppendFromMark(Kind kind) { return AddTo(kind, TakeFromMark()); }

  Step Pop() {
    if (stack_.size() > Floor()) {
      stack_.pop_back();
    } else if (!marks_.empty()) {
      marks_.pop_back();
    } else {
      return Fault::kMalformed;
    }
    return std::nullopt;
  }

  template <typename Use>
  Step WithNumber(std::size_t size, Use use) {
    const auto number = Number(size);
    return number ? use(*number) : Step(Fault::kCutOff);
  }
  Step Keep(std::uint64_t key) {
    // Python numbers memo entries from 0, or from 1 (cPickle).
    if (stack_.size() <= Floor() || key > memo_.size() + 1) return Fault::kMalformed;
    if (key >= memo_.size()) memo_.resize(key + 1);
    memo_[key] = stack_.back();
    return std::nullopt;
  }
  Step Recall(std::uint64_t key) {
    const bool known = key < memo_.size() && memo_[key] != nullptr;
    return known ? PushKnown(memo_[key]) : Step(Fault::kMalformed);
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
  std::size_t opcode_at_ = 0;
  bool done_ = false;
  Pickle* pickle_ = nullptr;
  std::vector<PickleValue*> stack_;
  std::vector<std::size_t> marks_;
  std::vector<PickleValue*> memo_;  // null: unused number
};

Result<Pickle> ParsePickle(std::string_view bytes, const std::string& file) {
  Pickle pickle;
  PickleReader reader(bytes);
  const std::optional<Fault> fault = reader.Run(pickle);
  if (!fault) return pickle;
  const auto fail = [&](const char* code, std::string message, std::string hint) {
    return tl::unexpected(Diagnostics{{code, {file, 0, 0}, std::move(message), std::move(hint)}});
  };
  const std::size_t at = reader.opcode_at();
  switch (*fault) {
    case Fault::kCutOff:
      return fail("pickle.cut-off",
                  fmt::format("the pickle is incomplete: it ends at byte {}", bytes.size()),
                  "copy the file again, or repeat the dump");
    case Fault::kNotData:
      return fail("pickle.not-data",
                  fmt::format("the pickle contains a class or a function at byte {}, but stepcast "
                              "reads only plain data and never executes code",
                              at),
                  "use an output file of torch.cuda.memory._dump_snapshot()");
    case Fault::kTooLarge:
      return fail("pickle.too-large",
                  fmt::format("the pickle has more than {} values", kMostValues),
                  "record fewer events: "
                  "torch.cuda.memory._record_memory_history(max_entries=100000)");
    case Fault::kMalformed:
      break;
  }
  return fail("pickle.malformed", fmt::format("the file is not a pickle: byte {} is not valid", at),
              "use an output file of torch.cuda.memory._dump_snapshot()");
}

}  // namespace stepcast::formats
