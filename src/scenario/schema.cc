#include "src/scenario/schema.h"

#include <algorithm>

#include "src/base/check.h"

namespace stepcast::scenario {

void Schema::Take(SchemaValue value) {
  if (std::find(values_.begin(), values_.end(), value) != values_.end()) return;
  values_.push_back(std::move(value));
}

void Schema::TakeMapping() {
  Take({.kind = SchemaValue::Kind::kMapping});
  ++mappings_;
}

std::vector<Schema::Key>::iterator Schema::Find(std::string_view key) {
  return std::find_if(keys_.begin(), keys_.end(),
                      [&](const Key& known) { return known.name == key; });
}

Schema& Schema::TakeKey(std::string_view key, Need need) {
  auto found = Find(key);
  if (found == keys_.end()) {
    keys_.push_back({.name = std::string(key), .value = std::make_unique<Schema>()});
    found = keys_.end() - 1;
  }
  found->required += need == Need::kRequired ? 1 : 0;
  return *found->value;
}

Schema& Schema::TakeItems() {
  Take({.kind = SchemaValue::Kind::kSequence});
  if (items_ == nullptr) items_ = std::make_unique<Schema>();
  return *items_;
}

Schema& Schema::At(std::string_view key) {
  const auto found = Find(key);
  STEPCAST_CHECK(found != keys_.end(),
                 "the program must read a key before it describes the schema "
                 "of the key");
  return *found->value;
}

void Schema::Fix(std::string_view key, SchemaValue value) {
  At(key).TakeOnly(std::move(value));
  Find(key)->required = mappings_;
}

}  // namespace stepcast::scenario
