#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// What a reader takes, as a value: readers (document.h) that are given a Schema note in it what
// they ask for, key by key, so that it says what they do and nothing else. Editors complete files
// by it (report/dumps.h).
namespace stepcast::scenario {

enum class Need : std::uint8_t { kRequired, kOptional };

// Limits, both included. The upper ones keep sums of such values inside 64 bits.
struct IntegerRange {
  std::int64_t least = 0;
  std::int64_t most = 1'000'000'000'000'000;
  std::int64_t example = 0;  // for hints: a usual value; 0: hints name the limits alone
  friend bool operator==(const IntegerRange&, const IntegerRange&) = default;
};
struct DecimalRange {
  double least = 0;
  double most = 1e30;
  friend bool operator==(const DecimalRange&, const DecimalRange&) = default;
};

// A kind of value that may stand in a place.
struct SchemaValue {
  enum class Kind : std::uint8_t {
    kText,
    kWord,  // one of `words`
    kInteger,
    kDecimal,
    kBoolean,
    kVersion,
    kBytes,
    kBandwidth,
    kTime,
    kFlopRate,
    kSequence,  // of what `items` takes
    kMapping,   // with `keys`
  };
  Kind kind = Kind::kText;
  std::vector<std::string> words{};
  IntegerRange integers{};
  DecimalRange decimals{};
  friend bool operator==(const SchemaValue&, const SchemaValue&) = default;
};

// What may stand in a place: one of `values`, or what one of `others` takes.
class Schema {
 public:
  struct Key {
    std::string name;
    int required = 0;  // by so many of the mappings that were read here
    std::unique_ptr<Schema> value;
  };

  // Notes by readers.
  void Take(SchemaValue value);
  void TakeMapping();
  Schema& TakeKey(std::string_view key, Need need);
  Schema& TakeItems();  // of a sequence

  // Another form of what may stand here, with keys of its own.
  Schema& AddOther() { return *others_.emplace_back(std::make_unique<Schema>()); }
  // The key's, which has been noted.
  Schema& At(std::string_view key);
  // This value alone stands here.
  void TakeOnly(SchemaValue value) { values_ = {std::move(value)}; }
  // ... at a key, which every mapping needs: by it forms are told apart.
  void Fix(std::string_view key, SchemaValue value);
  // For people: what the value means; its default, as documents say it.
  void Describe(std::string description, std::string default_value) {
    description_ = std::move(description);
    default_value_ = std::move(default_value);
  }

  const std::vector<SchemaValue>& values() const { return values_; }
  const std::vector<Key>& keys() const { return keys_; }  // in the order in which they are read
  // All mappings that were read here needed it.
  bool Requires(const Key& key) const { return key.required == mappings_; }
  const Schema* items() const { return items_.get(); }
  const std::vector<std::unique_ptr<Schema>>& others() const { return others_; }
  const std::string& description() const { return description_; }
  const std::string& default_value() const { return default_value_; }

 private:
  std::vector<Key>::iterator Find(std::string_view key);

  std::vector<SchemaValue> values_;
  std::vector<Key> keys_;
  int mappings_ = 0;
  std::unique_ptr<Schema> items_;
  std::vector<std::unique_ptr<Schema>> others_;
  std::string description_, default_value_;
};

}  // namespace stepcast::scenario
