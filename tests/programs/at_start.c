/* What a program finds when its main begins. */
#include <errno.h>
#include <stdio.h>

int main(void) {
    printf("errno %d\n", errno);
    return 0;
}
