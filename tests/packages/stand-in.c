/* Prints and writes as the daemon does what packages are made of: version, completions, manual. */
#include <stdio.h>
#include <string.h>

int main(int count, char **words)
{
    if (count == 2 && strcmp(words[1], "version") == 0)
        return puts("taffrail stands here") < 0;
    if (count == 3 && strcmp(words[1], "completions") == 0)
        return printf("# completions of %s\n", words[2]) < 0;
    if (count == 4 && strcmp(words[1], "man") == 0 && strcmp(words[2], "--output") == 0) {
        const char *const names[] = {"taffrail", "taffrail-serve", "taffrail-storage-help"};
        for (int i = 0; i < 3; i++) {
            char path[4096];
            snprintf(path, sizeof path, "%s/%s.1", words[3], names[i]);
            FILE *page = fopen(path, "w");
            if (page == 0)
                return 1;
            fprintf(page, ".TH %s 1\n", names[i]);
            fclose(page);
        }
        return 0;
    }
    return 2;
}
