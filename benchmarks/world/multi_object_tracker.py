"""Tracking by detection: constant velocity states, IoU costs, greedy association and birth of tracks."""
import torch
import torch.nn as nn


def iou_batch(a, b):
    lt = torch.maximum(a[:, None, :2], b[None, :, :2])
    rb = torch.minimum(a[:, None, 2:], b[None, :, 2:])
    inter = (rb - lt).clamp(min=0).prod(-1)
    area_a, area_b = (a[:, 2:] - a[:, :2]).prod(-1), (b[:, 2:] - b[:, :2]).prod(-1)
    return inter / (area_a[:, None] + area_b[None] - inter).clamp(min=1e-6)


class KalmanLite(nn.Module):
    def __init__(self, gain=0.6, velocity_gain=0.2):
        super().__init__()
        self.gain, self.velocity_gain = gain, velocity_gain

    def predict(self, boxes, velocity):
        return boxes + velocity

    def update(self, predicted, velocity, measured):
        residual = measured - predicted
        return predicted + self.gain * residual, velocity + self.velocity_gain * residual


class Sort(nn.Module):
    def __init__(self, max_tracks=6, iou_threshold=0.3, max_age=2):
        super().__init__()
        self.kf = KalmanLite()
        self.iou_threshold, self.max_age, self.max_tracks = iou_threshold, max_age, max_tracks
        self.register_buffer("boxes", torch.zeros(max_tracks, 4))
        self.register_buffer("velocity", torch.zeros(max_tracks, 4))
        self.register_buffer("age", torch.full((max_tracks,), 99))
        self.register_buffer("ids", torch.zeros(max_tracks, dtype=torch.long))
        self.register_buffer("next_id", torch.ones((), dtype=torch.long))

    def associate(self, iou):
        matches = torch.full((iou.shape[1],), -1, dtype=torch.long)
        iou = iou.clone()
        for _ in range(min(iou.shape)):
            value, flat = iou.flatten().max(0)
            if value < self.iou_threshold:
                break
            track, det = flat // iou.shape[1], flat % iou.shape[1]
            matches[det] = track
            iou[track] = -1.0
            iou[:, det] = -1.0
        return matches

    @torch.no_grad()
    def forward(self, dets, scores):
        dets = torch.where((scores > 0.3)[:, None], dets, torch.zeros_like(dets))
        alive = self.age <= self.max_age
        predicted = self.kf.predict(self.boxes, self.velocity)
        iou = iou_batch(predicted, dets) * alive[:, None]
        matches = self.associate(iou)
        self.age += 1
        for d in range(dets.shape[0]):
            if matches[d] >= 0:
                t = matches[d]
                box, vel = self.kf.update(predicted[t], self.velocity[t], dets[d])
                self.boxes[t], self.velocity[t], self.age[t] = box, vel, 0
            elif scores[d] > 0.3:
                slot = int(self.age.argmax())
                self.boxes[slot], self.velocity[slot], self.age[slot] = dets[d], 0.0, 0
                self.ids[slot] = self.next_id
                self.next_id += 1
        n_active = int((self.age == 0).sum())
        return self.boxes.clone(), torch.where(self.age == 0, self.ids, -1), n_active


def build():
    return Sort()


def example_inputs():
    g = torch.Generator().manual_seed(0)
    base = torch.tensor([[0.0, 0, 10, 10], [20, 20, 32, 30], [5, 30, 15, 42]])
    return [(base + 1.5 * i + torch.rand(3, 4, generator=g), torch.tensor([0.9, 0.8, 0.2 if i == 1 else 0.7])) for i in range(3)]
