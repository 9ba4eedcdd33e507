#pragma once

#include <array>
#include <string_view>

namespace stepcast::model {

// Returns the name of a member, given a pointer to it: "query" for &ModuleNames::query. gcc and
// clang write the pointer into the function's name.
template <auto member>
constexpr std::string_view MemberName() {
  constexpr std::string_view function = __PRETTY_FUNCTION__;
  constexpr std::string_view pointer =
      function.substr(0, function.find_first_of(";]", function.find("member = ")));
  return pointer.substr(pointer.rfind(':') + 1);
}

// A member whose name is its key in files.
template <typename Type, typename Value>
struct NamedMember {
  std::string_view name;
  Value Type::*member;
};

// The members with their names, in this order.
template <auto... members>
inline constexpr std::array kNamedMembers{NamedMember{MemberName<members>(), members}...};

}  // namespace stepcast::model
