// A feature extractor that asks for more than it may have.
#include <cstdio>
#include <vector>
int main() {
  std::vector<std::vector<float>> rows;
  for (int i = 0;; ++i) {
    rows.emplace_back(4 << 20, 1.0f);
    std::printf("row %d\n", i);
    std::fflush(stdout);
  }
}
