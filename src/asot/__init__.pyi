from asot import baselines as baselines
from asot import datasets as datasets
from asot import gradients as gradients
from asot import plots as plots
from asot import sinks as sinks
from asot.anchors.dictionary import DictionaryAnchors as DictionaryAnchors
from asot.anchors.fixed import FixedAnchors as FixedAnchors
from asot.anchors.kmeans import KMeansAnchors as KMeansAnchors
from asot.anchors.metric import MetricAnchors as MetricAnchors
from asot.anchors.space import AnchorSpace as AnchorSpace
from asot.batch import Batch as Batch
from asot.batch import emd_batch as emd_batch
from asot.data.distributions import Distributions as Distributions
from asot.data.files import load_collection as load_collection
from asot.data.spaces.files import load_spaces as load_spaces
from asot.distances import pairwise as pairwise
from asot.distances import pairwise_exact as pairwise_exact
from asot.gromov_wasserstein import gromov as gromov
from asot.gromov_wasserstein import gromov_plan as gromov_plan
from asot.histograms import emd as emd
from asot.histograms import emd_many as emd_many
from asot.histograms import sinkhorn_many as sinkhorn_many
from asot.index.index import Index as Index
from asot.learn.barycenter import Barycenter as Barycenter
from asot.learn.barycenter import barycenter as barycenter
from asot.learn.columns import ColumnDistances as ColumnDistances
from asot.learn.columns import pairwise_columns as pairwise_columns
from asot.learn.drivers import Drivers as Drivers
from asot.learn.drivers import drivers as drivers
from asot.learn.groups import GroupDifferences as GroupDifferences
from asot.learn.groups import group_differences as group_differences
from asot.learn.kernel import Kernel as Kernel
from asot.learn.kernel import kernel as kernel
from asot.learn.kernel_estimator import WassersteinKernel as WassersteinKernel
from asot.learn.kmeans import WassersteinKMeans as WassersteinKMeans
from asot.learn.neighbors_estimator import WassersteinNeighbors as WassersteinNeighbors
from asot.learn.noise import NoiseFloor as NoiseFloor
from asot.learn.noise import noise_floor as noise_floor
from asot.learn.outliers import Outliers as Outliers
from asot.learn.outliers import outliers as outliers
from asot.learn.perturbations import PerturbationTest as PerturbationTest
from asot.learn.perturbations import perturbation_test as perturbation_test
from asot.learn.size_matched import size_matched as size_matched
from asot.neighbors import (
    RadiusNeighbors as RadiusNeighbors,
)
from asot.neighbors import (
    kneighbors as kneighbors,
)
from asot.neighbors import (
    radius_neighbors as radius_neighbors,
)
from asot.plans import TransportPlan as TransportPlan
from asot.plans import plan as plan
from asot.results.distances import Distances as Distances
from asot.results.distances import Neighbors as Neighbors
from asot.results.files import load_distances as load_distances
from asot.results.plans import Plans as Plans
from asot.run.protocols import Status as Status
from asot.store.stored import Stored as Stored
from asot.store.stored import open_store as open_store

__version__: str
