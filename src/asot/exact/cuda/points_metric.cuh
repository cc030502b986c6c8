// Ground metrics, coordinate by coordinate (native/common/metrics.hpp has the same ones for the CPU): a `Gap` gathers what two
// points differ by, and `length` makes a distance of it. A coordinate in which both points are 0 adds nothing.
//
// Defines: METRIC, one of the codes below.

enum {
    EUCLIDEAN, CITYBLOCK, CHEBYSHEV, MINKOWSKI, CANBERRA, HAMMING, JACCARD, ROGERSTANIMOTO, SOKALSNEATH, JENSENSHANNON
};

constexpr bool HAS_ONE_SUM = METRIC != MINKOWSKI && METRIC != JACCARD && METRIC != SOKALSNEATH;

struct Gap {
    double sum, more;  // `more`: the largest coordinate (Minkowski), or how many are not 0 in both points
};

DEVICE double share_of(double x, double mean) { return x > 0.0 ? x * log(x / mean) : 0.0; }

// As in native/common/metrics.hpp, where it is explained.
DEVICE double shared_entropy(double a, double b) {
    const double mean = 0.5 * (a + b);
    if (!(mean > 0.0)) return 0.0;
    const double t = 0.5 * (a - b) / mean, square = t * t;
    if (square >= 0.015625) return share_of(a, mean) + share_of(b, mean);
    double sum = 0.0;
    for (int k = 9; k > 0; k--) sum = sum * square + 1.0 / double(k * (2 * k - 1));
    return mean * square * sum;
}

DEVICE void widen(Gap& gap, double x, double y, double order) {
    const double apart = fabs(x - y);
    if (METRIC == EUCLIDEAN) {
        gap.sum += apart * apart;
    } else if (METRIC == CITYBLOCK) {
        gap.sum += apart;
    } else if (METRIC == CHEBYSHEV) {
        gap.sum = larger(gap.sum, apart);
    } else if (METRIC == MINKOWSKI) {  // powers of at most 1 stay in range: the sum is in units of the largest so far
        if (apart > gap.more) {
            gap.sum = 1.0 + (gap.more > 0.0 ? gap.sum * pow(gap.more / apart, order) : 0.0);
            gap.more = apart;
        } else if (apart > 0.0) {
            gap.sum += pow(apart / gap.more, order);
        }
    } else if (METRIC == CANBERRA) {
        const double size = fabs(x) + fabs(y);
        gap.sum += size > 0.0 ? apart / size : 0.0;
    } else if (METRIC == JENSENSHANNON) {
        gap.sum += shared_entropy(x, y);
    } else {
        gap.sum += x != y;
        gap.more += x != 0.0 && y != 0.0;
    }
}

// `order` is Minkowski's p, and the number of coordinates for metrics that count them.
DEVICE double length(const Gap& gap, double order) {
    const double differ = gap.sum, both = gap.more;
    if (METRIC == EUCLIDEAN) return sqrt(gap.sum);
    if (METRIC == MINKOWSKI) return gap.more > 0.0 ? gap.more * pow(gap.sum, 1.0 / order) : 0.0;
    if (METRIC == HAMMING) return differ / order;
    if (METRIC == JENSENSHANNON) return sqrt(0.5 * gap.sum);
    if (METRIC == JACCARD) return differ > 0.0 ? differ / (both + differ) : 0.0;
    if (METRIC == ROGERSTANIMOTO) return 2.0 * differ / (order + differ);
    if (METRIC == SOKALSNEATH) return differ > 0.0 ? 2.0 * differ / (both + 2.0 * differ) : 0.0;
    return gap.sum;
}

// What two points differ by in a norm, to a power.
DEVICE double raised(const Gap& gap, double power) {
    if (METRIC == EUCLIDEAN && power == 2.0) return gap.sum;
    const double far = length(gap, 2.0);
    return power == 1.0 ? far : power == 2.0 ? far * far : pow(far, power);
}
