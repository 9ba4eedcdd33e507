#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/diagnostic.h"

// Reads Python's pickles (protocols 2 to 5) of plain data: None, booleans, integers, floats, text,
// bytes, lists, tuples, sets and dictionaries. A pickle is a program that may import and call any
// code. This reader executes no code, and fails at the first opcode that is not for plain data (for
// opcodes, see Python's pickletools).
//
// Errors: pickle.not-data (a reference to a class or function), pickle.cut-off, pickle.malformed
// (an unknown opcode, an empty stack), pickle.too-large (too many values).
namespace stepcast::formats {

struct PickleValue {
  enum class Kind : std::uint8_t {
    kNone,
    kBoolean,
    kInteger,
    kReal,
    kText,  // text or bytes
    kSequence,
    kMapping,
  };
  Kind kind = Kind::kNone;
  std::int64_t integer = 0;  // booleans: 0 or 1; beyond 64 bits: the nearest value
  double real = 0;
  std::string text{};
  std::vector<const PickleValue*> items{};  // for a mapping: key, value, key, value, ...

  // Returns the value of a key of this mapping. Null if the key is missing or this value is not a
  // mapping. Searches only the first kMostKeys keys, because a huge mapping may be referenced many
  // times.
  static constexpr std::size_t kMostKeys = 64;
  const PickleValue* Find(std::string_view key) const;
  // Returns the integer or boolean value. Returns `otherwise` for other kinds of values.
  std::int64_t IntegerOr(std::int64_t otherwise) const {
    return kind == Kind::kInteger || kind == Kind::kBoolean ? integer : otherwise;
  }
};

// Owns the values of a pickle, which may contain reference cycles.
class Pickle {
 public:
  const PickleValue& root() const { return *root_; }

 private:
  friend class PickleReader;
  std::deque<PickleValue> values_;
  const PickleValue* root_ = nullptr;
};

Result<Pickle> ParsePickle(std::string_view bytes, const std::string& file);

}  // namespace stepcast::formats
