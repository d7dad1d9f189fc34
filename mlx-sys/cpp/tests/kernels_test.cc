#include "check.h"

#include "cpu/dispatch.h"

int main() {
  std::printf("instruction sets:");
  for (const auto& set : troupe::instruction_sets()) std::printf(" %s", set.name);
  std::printf("\n");
  troupe::test::test_pool();
  troupe::test::test_dense();
  troupe::test::test_packed();
  troupe::test::test_sampling();
  troupe::test::test_rows();
  troupe::test::test_attention();
  std::printf("all passed\n");
}
