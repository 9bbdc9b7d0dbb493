/* Attributes of streams, and what a capture has of them. */
#include "forms.h"

FORWARD_FORMS(cudaStreamGetId, _ptsz, (cudaStream_t stream, unsigned long long *id),
              driver.cuStreamGetId[per_thread](stream, id))
FORWARD_FORMS(cudaStreamCopyAttributes, _ptsz, (cudaStream_t to, cudaStream_t from),
              driver.cuStreamCopyAttributes[per_thread](to, from))
FORWARD_FORMS(cudaStreamGetAttribute, _ptsz,
              (cudaStream_t stream, cudaStreamAttrID attribute, cudaStreamAttrValue *value),
              driver.cuStreamGetAttribute[per_thread](stream, (CUstreamAttrID)attribute,
                                                      (CUstreamAttrValue *)value))
FORWARD_FORMS(cudaStreamSetAttribute, _ptsz,
              (cudaStream_t stream, cudaStreamAttrID attribute, const cudaStreamAttrValue *value),
              driver.cuStreamSetAttribute[per_thread](stream, (CUstreamAttrID)attribute,
                                                      (const CUstreamAttrValue *)value))

#if CUDART_VERSION >= 12080
FORWARD_FORMS(cudaStreamGetDevice, _ptsz, (cudaStream_t stream, int *device),
              driver.cuStreamGetDevice[per_thread](stream, device))
#endif

#if CUDART_VERSION >= 13000
FORWARD_FORMS(cudaStreamGetCaptureInfo, _ptsz,
              (cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id,
               cudaGraph_t *graph, const cudaGraphNode_t **nodes, const cudaGraphEdgeData **data,
               size_t *count),
              driver.cuStreamGetCaptureInfo[per_thread](stream, (CUstreamCaptureStatus *)status,
                                                        (cuuint64_t *)id, graph, nodes,
                                                        (const CUgraphEdgeData **)data, count))
FORWARD_FORMS(cudaStreamUpdateCaptureDependencies, _ptsz,
              (cudaStream_t stream, cudaGraphNode_t *nodes, const cudaGraphEdgeData *data,
               size_t count, unsigned int flags),
              driver.cuStreamUpdateCaptureDependencies[per_thread](stream, nodes,
                                                                   (const CUgraphEdgeData *)data,
                                                                   count, flags))
FORWARD_FORMS(cudaStreamBeginCaptureToGraph, _ptsz,
              (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *nodes,
               const cudaGraphEdgeData *data, size_t count, enum cudaStreamCaptureMode mode),
              driver.cuStreamBeginCaptureToGraph[per_thread](stream, graph, nodes,
                                                             (const CUgraphEdgeData *)data, count,
                                                             (CUstreamCaptureMode)mode))
#else
FORWARD_FORMS(cudaStreamGetCaptureInfo_v2, _ptsz,
              (cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id,
               cudaGraph_t *graph, const cudaGraphNode_t **nodes, size_t *count),
              driver.cuStreamGetCaptureInfo[per_thread](stream, (CUstreamCaptureStatus *)status,
                                                        (cuuint64_t *)id, graph, nodes, count))
FORWARD_FORMS(cudaStreamUpdateCaptureDependencies, _ptsz,
              (cudaStream_t stream, cudaGraphNode_t *nodes, size_t count, unsigned int flags),
              driver.cuStreamUpdateCaptureDependencies[per_thread](stream, nodes, count, flags))
#endif
