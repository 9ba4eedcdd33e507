#include "src/emit/templates.h"

#include "gtest/gtest.h"

namespace stepcast::emit {
namespace {

TEST(Templates, HaveValuesAndConditions) {
  const char* const text =
      "a = @one@ + @two@\n"
      "%if one\n"
      "one\n"
      "%if none\n"
      "never\n"
      "%else\n"
      "other\n"
      "%end\n"
      "%else\n"
      "neither\n"
      "%if one\n"
      "nor\n"
      "%end\n"
      "%end\n"
      "end\n";
  EXPECT_EQ(Filled(text, {{"one", "1"}, {"two", "2"}, {"none", ""}}),
            "a = 1 + 2\none\nother\nend\n");
}

}  // namespace
}  // namespace stepcast::emit
