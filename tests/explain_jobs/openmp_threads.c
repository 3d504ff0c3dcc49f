// A loop over all rows with OpenMP.
#include <stdio.h>
int main(void) {
  double sum = 0;
#pragma omp parallel for reduction(+ : sum)
  for (int i = 0; i < 1000000; ++i) sum += i;
  printf("%f\n", sum);
}
